"""Posteriors on the user's scale, against closed forms and quadrature."""

import json
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.integrate import quad, trapezoid
from scipy.special import expit

from skboost.approximation import Mixture
from skboost.families import DiagonalGaussian, FullGaussian, Laplace
from skboost.posterior import (
    MixturePosterior,
    SampledMarginal,
    TransformedPosterior,
)
from skboost.transforms import Constraints, Interval

from .conftest import make_mixture

N_SE = 4


def positive(mixture, **kwargs):
    return TransformedPosterior(mixture, Constraints("positive", 1), **kwargs)


@pytest.fixture
def bimodal(normal_mixture):
    """A mixture of two lognormal densities."""
    return positive(normal_mixture([-1.0, 2.0], [0.5, 0.3], [0.4, 0.6]), names=["rate"])


def lognormal(f):
    """The same of SciPy's lognormal densities, weighted."""
    return 0.4 * f(stats.lognorm(0.5, scale=np.exp(-1.0))) + 0.6 * f(
        stats.lognorm(0.3, scale=np.exp(2.0))
    )


MIXED = {0: "positive", (1, 3, 4): "simplex", (2, 5): "ordered", 6: (-1, 2)}


@pytest.fixture(scope="module")
def mixed(families):
    constraints = Constraints(MIXED, 7)
    names = list("abcdefg")
    return TransformedPosterior(make_mixture(families, 6), constraints, names)


# --- densities and draws


def test_log_density_is_that_of_a_lognormal(bimodal):
    x = np.array([-1.0, 0.0, 1e-3, 0.4, 3.0, 50.0, np.inf, np.nan])
    with np.errstate(divide="ignore"):
        expected = np.log(lognormal(lambda d: d.pdf(x[1:-2])))
    found = bimodal.log_density(x[:, None])
    assert_allclose(found[1:-2], expected, rtol=1e-12)
    assert np.isneginf(found[[0, 1, -2, -1]]).all()
    with pytest.raises(ValueError, match=r"theta must have shape \(n, 1\)"):
        bimodal.log_density(np.ones(3))


def test_log_density_of_a_simplex_is_that_of_its_first_coordinates():
    posterior = TransformedPosterior(
        make_mixture([FullGaussian()] * 2, 2), Constraints("simplex", 3)
    )
    n = 600
    grid = (np.arange(n) + 0.5) / n
    first, second = np.meshgrid(grid, grid)
    rest = 1.0 - first - second
    inside = rest > 1e-9
    theta = np.stack([first, second, rest], axis=-1)[inside]
    mass = np.exp(posterior.log_density(theta)).sum() / n**2
    assert mass == pytest.approx(1.0, abs=2e-3)
    outside = np.array([[0.5, 0.5, 0.1], [0.6, 0.5, -0.1], [0.5, 0.5 - 1e-6, 0.0]])
    assert np.isneginf(posterior.log_density(outside)).all()


def test_draws_lie_inside_and_carry_their_density(mixed):
    theta = mixed.sample(500, random_state=0)
    assert theta.shape == (500, 7)
    assert mixed.constraints.contains(theta).all()
    assert np.isfinite(mixed.log_density(theta)).all()
    drawn, log_q = mixed._draw(500, np.random.default_rng(0))
    assert_allclose(mixed.log_density(drawn), log_q, rtol=1e-8, atol=1e-8)


# --- moments


def test_moments_of_a_mixture_of_lognormals(bimodal):
    first = lognormal(lambda d: d.moment(1))
    second = lognormal(lambda d: d.moment(2))
    assert_allclose(bimodal.mean(), first, rtol=1e-10)
    assert_allclose(bimodal.std(), np.sqrt(second - first**2), rtol=1e-9)
    assert_allclose(bimodal.covariance(), second - first**2, rtol=1e-9)


@pytest.mark.parametrize(
    ("sd", "ends"), [(6.0, (-5.0, None)), (0.1, (None, 3.0)), (1e-6, (1e6, None))]
)
def test_moments_of_half_lines(normal_mixture, sd, ends):
    one = normal_mixture([0.5], [sd], [1.0])
    posterior = TransformedPosterior(one, Constraints(ends, 1))
    sign = 1.0 if ends[0] is not None else -1.0
    truth = stats.lognorm(sd, scale=np.exp(sign * 0.5))
    mean = (ends[0] if sign > 0 else ends[1]) + sign * truth.mean()
    assert_allclose(posterior.mean(), mean, rtol=1e-9)
    # Beside an offset of 1e6 a deviation of 1e-6 has four digits left.
    assert_allclose(posterior.std(), truth.std(), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    ("family", "centre", "sd"),
    [
        (FullGaussian(), 0.3, 1e-4),
        (Laplace(), -2.0, 1.0),
        (FullGaussian(), 1.0, 60.0),
        (Laplace(), 1.0, 60.0),
    ],
)
def test_moments_of_the_unit_interval(family, centre, sd):
    params = family.from_moments(np.array([centre]), np.array([[sd**2]]))
    posterior = TransformedPosterior(
        Mixture.single((family, params)), Constraints("unit_interval", 1)
    )
    if isinstance(family, Laplace):
        z = stats.laplace(centre, sd / np.sqrt(2))
    else:
        z = stats.norm(centre, sd)

    def expect(f):
        ends = np.unique(
            [-45.0, 0.0, 45.0, *(centre + sd * np.array([-30, -3, 0, 3, 30]))]
        )
        total = z.cdf(ends[0]) * f(0.0) + z.sf(ends[-1]) * f(1.0)
        for a, b in zip(ends, ends[1:], strict=False):
            total += quad(lambda t: f(expit(t)) * z.pdf(t), a, b, limit=500)[0]
        return total

    mean = expect(lambda x: x)
    std = np.sqrt(expect(lambda x: (x - mean) ** 2))
    assert_allclose(posterior.mean(), mean, rtol=1e-8)
    assert_allclose(posterior.std(), std, rtol=1e-6)


def laplace(log_scale):
    return positive(Mixture.single((Laplace(), np.array([0.5, log_scale]))))


@pytest.mark.parametrize("b", [0.1, 0.4])
def test_moments_of_an_exponential_of_a_laplace_variable(b):
    posterior = laplace(np.log(b))
    mean, second = np.exp(0.5) / (1 - b**2), np.exp(1.0) / (1 - 4 * b**2)
    assert_allclose(posterior.mean(), mean, rtol=1e-9)
    assert_allclose(posterior.std(), np.sqrt(second - mean**2), rtol=1e-9)


def test_moments_that_do_not_exist_are_infinite():
    heavy, heavier = laplace(np.log(0.7)), laplace(np.log(1.2))
    assert_allclose(heavy.mean(), np.exp(0.5) / (1 - 0.49), rtol=1e-9)
    assert heavy.std() == np.inf
    assert heavier.mean() == heavier.std() == np.inf
    assert np.isinf(heavier.covariance()).all()
    upper = TransformedPosterior(heavier.mixture, Constraints((None, 1.0), 1))
    assert upper.mean() == -np.inf
    ordered = TransformedPosterior(
        Mixture.single((Laplace(), np.array([0.0, 0.5, 0.0, np.log(0.7)]))),
        Constraints("ordered", 2),
    )
    assert np.isfinite(ordered.mean()).all()
    assert np.isfinite(ordered.std()).tolist() == [True, False]


def test_covariance_of_correlated_lognormals():
    mean, covariance = np.array([0.2, -0.4]), np.array([[0.3, 0.2], [0.2, 0.4]])
    family = FullGaussian()
    mixture = Mixture.single((family, family.from_moments(mean, covariance)))
    posterior = TransformedPosterior(mixture, Constraints("positive", 2))
    means = np.exp(mean + 0.5 * np.diag(covariance))
    truth = np.outer(means, means) * np.expm1(covariance)
    found = posterior.covariance()
    assert_allclose(np.diag(found), np.diag(truth), rtol=1e-9)
    draws = stats.multivariate_normal(mean, covariance).rvs(100_000, random_state=0)
    products = np.prod(np.exp(draws) - means, axis=1)
    se = products.std() / np.sqrt(1 << 15)
    assert abs(found[0, 1] - truth[0, 1]) < N_SE * se


def test_moments_agree_with_draws(mixed):
    n = 40_000
    theta = mixed.sample(n, random_state=3)
    mean, std = mixed.mean(), mixed.std()
    finite = np.isfinite(std)
    assert finite.sum() >= 5
    # As far as a fourth moment lets one see a standard deviation.
    error = np.abs(theta.mean(axis=0) - mean)[finite]
    assert (error < N_SE * (theta.std(axis=0) / np.sqrt(n))[finite]).all()
    covariance = mixed.covariance()
    assert_allclose(np.sqrt(np.diag(covariance))[finite], std[finite])
    inner = covariance[np.ix_(finite, finite)]
    assert np.linalg.eigvalsh(inner).min() > -1e-10 * np.abs(inner).max()


def test_the_mean_of_ordered_coordinates_is_exact():
    mean, covariance = np.array([1.0, -0.5, 0.3]), np.diag([0.5, 0.2, 0.4])
    covariance[0, 1] = covariance[1, 0] = 0.2
    family = FullGaussian()
    posterior = TransformedPosterior(
        Mixture.single((family, family.from_moments(mean, covariance))),
        Constraints("ordered", 3),
    )
    steps = np.exp(mean[1:] + 0.5 * np.diag(covariance)[1:])
    assert_allclose(posterior.mean(), np.cumsum([1.0, *steps]), rtol=1e-9)
    # Stein: the covariance of x and exp(y) is that of x and y times E exp(y).
    second = 0.5 + steps[0] ** 2 * np.expm1(0.2) + 2 * 0.2 * steps[0]
    assert_allclose(posterior.std()[:2], np.sqrt([0.5, second]), rtol=0.01)


def test_a_width_stands_in_for_a_missing_variance():
    class Endless(Laplace):
        def std(self, params):
            return np.full(self.dim_of(params), np.inf)

    params = np.array([0.3, -1.0, np.log(0.5), np.log(2.0)])
    mixture = Mixture.single((Endless(), params))
    # A Laplace density has the height of a normal one with this deviation.
    expected = np.array([[0.5, 2.0]]) * 2.0 / np.sqrt(2.0 * np.pi)
    assert_allclose(mixture.component_scales(), expected)
    posterior = MixturePosterior(mixture)
    assert_allclose(
        posterior.interval(0.5), [[-0.0466, 0.6466], [-2.3863, 0.3863]], atol=1e-4
    )
    assert len(posterior.modes()) == 1


# --- marginals


def test_an_exact_marginal_is_that_of_lognormals(bimodal):
    marginal = bimodal.marginal("rate")
    x = np.array([[0.05, 0.3, 1.0], [5.0, 8.0, 30.0]])
    assert_allclose(marginal.pdf(x), lognormal(lambda d: d.pdf(x)), rtol=1e-10)
    assert_allclose(marginal.cdf(x), lognormal(lambda d: d.cdf(x)), rtol=1e-10)
    p = np.linspace(0.01, 0.99, 21)
    assert_allclose(marginal.cdf(marginal.quantile(p)), p, rtol=1e-9)
    parts = np.exp(marginal.component_log_pdf(x)) @ bimodal.weights
    assert_allclose(parts, marginal.pdf(x))
    assert_allclose(marginal.component_locations(), np.exp([-1.0, 2.0]))
    assert_allclose(bimodal.interval(0.8)[0], marginal.interval(0.8))


def test_an_exact_marginal_outside_and_at_the_ends(bimodal):
    marginal = bimodal.marginal(0)
    assert marginal.pdf(-1.0) == marginal.cdf(-1.0) == marginal.cdf(0.0) == 0.0
    assert marginal.cdf(np.inf) == 1.0
    assert np.isnan(marginal.cdf(np.nan))
    assert_allclose(marginal.quantile([0.0, 1.0]), [0.0, np.inf])
    assert np.ndim(marginal.quantile(0.3)) == np.ndim(marginal.pdf(1.0)) == 0


@pytest.mark.parametrize("x", [[[]], -3.0, [-5.0, -4.0], [np.nan, -np.inf]])
def test_densities_where_no_point_is_inside(mixed, x):
    for i in (0, 1, 6):
        marginal = mixed.marginal(i)
        parts = marginal.component_log_pdf(x)
        assert parts.shape == (*np.shape(x), mixed.n_components)
        assert np.all(parts == -np.inf)
        assert np.all(marginal.pdf(x) == 0.0)
        assert marginal.pdf(x).shape == np.shape(x)


def test_marginals_agree_with_draws(mixed):
    draws = mixed.sample(8000, random_state=1)
    for i in range(7):
        # The fixed draws of a block have an error of their own.
        statistic = stats.kstest(draws[:, i], mixed.marginal(i).cdf).statistic
        assert statistic < 0.02


@pytest.mark.slow
def test_densities_of_marginals_integrate_to_one(mixed):
    for i in range(7):
        marginal = mixed.marginal(i)
        ends = marginal.quantile([1e-4, 1 - 1e-4])
        # Quantiles as nodes resolve the density on every scale.
        grid = marginal.quantile(np.linspace(1e-4, 1 - 1e-4, 800))
        grid = np.unique(np.concatenate([grid, np.linspace(*ends, 800)]))
        assert trapezoid(marginal.pdf(grid), grid) == pytest.approx(1.0, abs=0.02)


def test_the_first_coordinate_of_a_simplex_has_a_known_marginal(normal_mixture):
    # theta_0 = 1 / (1 + exp(-(z_0 - ln 2))): a logit-normal.
    family = DiagonalGaussian()
    params = family.from_moments(np.array([0.4, -1.0]), np.array([0.8, 0.3]))
    posterior = TransformedPosterior(
        Mixture.single((family, params)), Constraints("simplex", 3)
    )
    truth = stats.norm(0.4 - np.log(2), np.sqrt(0.8))
    marginal = posterior.marginal(0)
    x = np.linspace(0.05, 0.95, 19)
    logit = np.log(x / (1 - x))
    assert_allclose(marginal.cdf(x), truth.cdf(logit), atol=1e-3)
    density = truth.pdf(logit) / (x * (1 - x))
    assert_allclose(marginal.pdf(x), density, rtol=0.05, atol=0.01)
    p = np.array([0.05, 0.5, 0.95])
    assert_allclose(marginal.cdf(marginal.quantile(p)), p, atol=1e-6)
    assert_allclose(marginal.quantile([0.0, 1.0]), [0.0, 1.0])
    assert_allclose(marginal.pdf(np.array([-0.5, 1.5])), 0.0)
    assert marginal.cdf(-0.5) == 0.0
    assert marginal.cdf(1.5) == 1.0


def test_draws_that_rounding_puts_at_the_ends_count():
    draws = np.repeat([0.0, 0.3, 0.5, 0.6, 1.0], 20)
    source, ones = np.zeros(draws.size, dtype=int), np.ones(1)
    shares = np.full(draws.size, 1.0 / draws.size)
    marginal = SampledMarginal(draws, shares, source, ones, Interval())
    assert np.isfinite(marginal.component_log_pdf([0.3, 0.9])).all()


def test_interval_and_summary_are_those_of_the_marginals(mixed):
    table = mixed.summary(level=0.8)
    assert list(table.index) == list("abcdefg")
    interval = mixed.interval(0.8)
    assert_allclose(table[["lower", "upper"]], interval)
    for i in range(7):
        marginal = mixed.marginal(i)
        assert_allclose(marginal.interval(0.8), interval[i], rtol=1e-8)
        above = 1.0 - marginal.cdf(0.0)
        assert table["probability_positive"].iloc[i] == pytest.approx(above)
    assert_allclose(table["probability_positive"].iloc[[0, 1, 3, 4]], 1.0)


# --- modes, copies, distances


def test_modes_are_those_of_the_unconstrained_density(bimodal):
    modes, core = bimodal.modes(), MixturePosterior(bimodal.mixture).modes()
    assert len(modes) == 2
    for mode, free in zip(modes, core, strict=True):
        assert_allclose(mode.location, np.exp(free.location))
        assert mode.log_density == free.log_density
        assert mode.distance == free.distance
    # Three apart; the mode further off has a component of width one half.
    assert modes[0].distance == 0.0
    assert modes[1].distance == pytest.approx(3.0 / 0.5, abs=1e-3)
    assert "distance=6" in repr(modes[1])


def test_hellinger_is_that_of_the_mixtures(bimodal, normal_mixture):
    other = normal_mixture([0.0], [1.0], [1.0])
    found = bimodal.hellinger(positive(other), random_state=0)
    core = MixturePosterior(bimodal.mixture)
    assert found == core.hellinger(MixturePosterior(other), random_state=0)
    for one, wrong in ((bimodal, other), (bimodal, core), (core, bimodal)):
        with pytest.raises(ValueError, match="the same constraints"):
            one.hellinger(wrong)


# --- importance sampling: the Jacobian cancels


def test_importance_weights_take_the_log_joint_of_the_user(normal_mixture):
    posterior = positive(normal_mixture([0.0], [0.8], [1.0]))
    target = stats.gamma(3.0, scale=0.5)

    def log_joint(theta):
        return target.logpdf(theta[:, 0]) + 1.5

    weighted = posterior.importance_weights(log_joint, n=8000, random_state=0)
    assert abs(weighted.log_evidence - 1.5) < N_SE * weighted.log_evidence_se
    draws = posterior.resample(log_joint, n=4000, random_state=0).draws[:, 0]
    se = target.std() / np.sqrt(min(weighted.effective_sample_size, 4000))
    assert abs(draws.mean() - target.mean()) < N_SE * se
    evidence = posterior.evidence(log_joint, n=8000, random_state=0)
    assert evidence.interval[0] < 1.5 < evidence.interval[1]
    # Distances are invariant: quadrature on the user's scale.
    errors = posterior.error_estimates(log_joint, n=8000, random_state=0)
    q = stats.lognorm(0.8)
    overlap = quad(lambda x: np.sqrt(q.pdf(x) * target.pdf(x)), 0, 50, limit=200)[0]
    assert abs(errors.hellinger_squared - (1 - overlap)) < (
        N_SE * errors.hellinger_squared_se
    )


def test_the_exact_posterior_needs_no_correction(mixed):
    for posterior in (mixed, MixturePosterior(mixed.mixture)):
        weighted = posterior.importance_weights(
            lambda theta, own=posterior: own.log_density(theta) + 3.0, random_state=0
        )
        assert weighted.log_evidence == pytest.approx(3.0, abs=1e-6)
        assert weighted.effective_sample_size == pytest.approx(4000, rel=1e-6)
    assert weighted.khat == 0.0


# --- on disk and elsewhere


def test_files_without_constraints_keep_their_version(bimodal, tmp_path):
    versions = []
    for posterior in (MixturePosterior(bimodal.mixture), bimodal):
        posterior.save(tmp_path / "file")
        with np.load(tmp_path / "file") as archive:
            header = json.loads(str(archive["header"]))
        versions.append((header["format_version"], "constraints" in header))
        assert type(MixturePosterior.load(tmp_path / "file")) is type(posterior)
    assert versions == [(1, False), (2, True)]


def test_saved_pickled_short_and_immutable(mixed, tmp_path):
    mixed.save(tmp_path / "posterior.npz")
    loaded = TransformedPosterior.load(tmp_path / "posterior.npz")
    for again in (loaded, pickle.loads(pickle.dumps(mixed))):
        assert (again.names, again.constraints) == (mixed.names, mixed.constraints)
        draws = again.sample(20, random_state=0)
        np.testing.assert_array_equal(draws, mixed.sample(20, random_state=0))
        assert repr(again) == repr(mixed)
    smaller = mixed.truncate(1)
    assert repr(smaller).startswith("TransformedPosterior(dim=7, n_components=1")
    assert smaller.names == mixed.names
    with pytest.raises(AttributeError):
        mixed.constraints = None


def test_what_does_not_fit_is_refused(normal_mixture):
    mixture = normal_mixture([0.0], [1.0], [1.0])
    with pytest.raises(ValueError, match="mixture must have dimension 2"):
        TransformedPosterior(mixture, Constraints("simplex", 3))
    with pytest.raises(TypeError, match="must be a Constraints object"):
        TransformedPosterior(mixture, "positive")
    with pytest.raises(ValueError, match="names must hold one name"):
        positive(mixture, names=["a", "b"])
