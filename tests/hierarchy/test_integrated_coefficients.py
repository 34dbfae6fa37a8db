"""Effects of groups of normal responses, and their coefficients, by brute force."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from skboost.approximation import Mixture
from skboost.boosting import Lattice
from skboost.families import FullGaussian
from skboost.hierarchy import (
    CrossedNormalMarginal,
    HierarchicalTarget,
    IntegratedNormalMarginal,
    IntegratedQuadratureMarginal,
    LaplaceMarginal,
    NormalMarginal,
    QuadratureMarginal,
    marginal_of,
    with_coefficients,
)
from skboost.hierarchy._integrated_normal import roots_of_inverses
from skboost.modes import laplace
from skboost.orbits import reweighted
from skboost.targets import HalfTPrior, Logistic, NormalPrior
from skboost.transforms import LowerBound

from .conftest import (
    ALL_LIKELIHOODS,
    LIKELIHOODS,
    choose_tables,
    differences,
    effects_matrix,
    flattened,
    grouped,
    n_scales,
    normal,
    of,
    points,
    standard_normals,
    zeros_and_ones,
)

# Standard deviations of the coefficients' prior, and what integrates over which rows.
SCALE = np.array([0.7, 2.0])
INTEGRATED = [
    (IntegratedNormalMarginal, "none"),
    (IntegratedNormalMarginal, "intercepts"),
    (IntegratedNormalMarginal, "slopes"),
    (IntegratedNormalMarginal, "crossed"),
    (CrossedNormalMarginal, "slopes"),
    (CrossedNormalMarginal, "crossed"),
    (CrossedNormalMarginal, "nested"),
]
# With coefficients beside scales, and with tables of cells that are sparse.
EVERY = [
    *((*case, SCALE, False) for case in INTEGRATED),
    (NormalMarginal, "none", None, False),
    (NormalMarginal, "intercepts", None, False),
    (NormalMarginal, "slopes", None, False),
    (CrossedNormalMarginal, "nested", None, False),
    (CrossedNormalMarginal, "crossed", None, False),
    (CrossedNormalMarginal, "crossed", None, True),
]
every = pytest.mark.parametrize(("kind", "name", "scale", "sparse"), EVERY)
DRAWN = [case for case in EVERY if case[1] != "none" or case[2] is SCALE]


def rows_of(name):
    """Rows whose responses depend on their columns."""
    rows = of(name, normal, offset=False)
    return replace(rows, y=rows.y + rows.X @ [1.0, -0.5])


class Model:
    """A marginal, points (n, ...) of all that it takes, and what brute force needs."""

    def __init__(self, kind, name, scale, n=3):
        self.rows = rows = rows_of(name)
        self.marginal = kind(rows) if scale is None else kind(rows, scale)
        self.theta, self.scale = points(rows, 1, n)[:, 2 * (scale is not None) :], scale
        self.Z, self.scale_of = effects_matrix(rows)

    def split(self, theta):
        beta = theta[:, : 2 * (self.scale is None)]
        return beta, theta[:, beta.shape[1] : -1], theta[:, -1]

    def parts(self, s):
        """Mean, random columns, the standard deviations of these, and of the noise."""
        beta, levels, noise = (part[s] for part in self.split(self.theta))
        sizes = np.exp(levels)[self.scale_of]
        if self.scale is None:
            return self.rows.X @ beta, self.Z, sizes, np.exp(noise)
        columns = np.hstack([self.rows.X, self.Z])
        return np.zeros(len(columns)), columns, np.append(SCALE, sizes), np.exp(noise)


@every
def test_what_is_left_is_the_density_of_all_responses(
    kind, name, scale, sparse, monkeypatch
):
    choose_tables(monkeypatch, sparse)
    model = Model(kind, name, scale)
    rows, given = model.rows, model.split(model.theta)
    value, score = model.marginal.value_and_score(*given)
    if scale is not None:
        np.testing.assert_allclose(model.marginal.value(*given), value, rtol=1e-10)
    # A weight of two is a row that stands twice.
    repeated = np.repeat(np.arange(len(rows.y)), rows.weight.astype(int))
    for s, found in enumerate(value):
        mean, columns, sizes, noise = model.parts(s)
        sized = columns[repeated] * sizes
        covariance = sized @ sized.T + noise**2 * np.eye(len(repeated))
        exact = multivariate_normal(mean[repeated], covariance)
        assert found == pytest.approx(exact.logpdf(rows.y[repeated]), abs=1e-9)

    def at(theta):
        return model.marginal.value_and_score(*model.split(theta))[0]

    np.testing.assert_allclose(score, differences(at, model.theta), atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "name", "scale", "sparse"),
    # Many other effects come from conjugate gradients.
    [*DRAWN, (CrossedNormalMarginal, "crossed", None, None)],
)
def test_what_is_drawn_is_of_the_joint_gaussian(kind, name, scale, sparse, monkeypatch):
    choose_tables(monkeypatch, sparse)
    if sparse is None:
        monkeypatch.setattr("skboost.hierarchy._crossed_normal._FEW", 0)
    n, model = 400, Model(kind, name, scale, 1)
    rows, rng = model.rows, np.random.default_rng(4)
    normals = standard_normals(rows, n)
    given = model.split(np.repeat(model.theta, n, axis=0))
    if scale is None:
        effects = model.marginal.effects(normals, *given)
    else:
        normals = (*normals, rng.normal(size=(len(SCALE), n, 1)))
        *effects, coef = model.marginal.effects(normals, *given)
        effects = (coef, *effects)
    flat, (fixed, columns, sizes, noise) = flattened(effects), model.parts(0)
    weight = rows.weight / noise**2
    covariance = np.linalg.inv((columns.T * weight) @ columns + np.diag(sizes**-2.0))
    mean = covariance @ (columns.T @ (weight * (rows.y - fixed)))
    np.testing.assert_allclose(flat.mean(axis=0), mean, atol=1e-9)
    # Five standard errors of draws that come in pairs; there are hundreds of entries.
    size = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    atol = 5.0 * np.sqrt(2.0 / n)
    np.testing.assert_allclose(np.cov(flat.T) / size, covariance / size, atol=atol)
    if scale is not None:
        # Coefficients alone, as they stand beside scales.
        centre, root = model.marginal.coefficients(*(part[:2] for part in given[1:]))
        np.testing.assert_allclose(centre[1], mean[:2], atol=1e-9)
        np.testing.assert_allclose(root[1] @ root[1].T, covariance[:2, :2], atol=1e-9)


def targets(rows):
    """The log joint density of scales alone, and that of coefficients and scales."""
    priors = [HalfTPrior(3.0, 1.0)] * (n_scales(rows) + 1)
    further = NormalPrior(), SCALE, priors, [LowerBound() for _ in priors]
    plain = NormalMarginal if len(rows.factors) < 2 else CrossedNormalMarginal
    return (
        HierarchicalTarget(marginal_of(rows, scale=SCALE), *further),
        HierarchicalTarget(plain(rows), *further),
    )


@pytest.mark.parametrize("name", ["intercepts", "slopes", "crossed"])
def test_scales_without_bound_are_a_wall_and_no_overflow(name):
    for target in targets(rows_of(name)):
        far = np.zeros((2, target.dim))
        far[:, target.n_columns :] = [[400.0], [-400.0]]
        far = np.vstack([far, far])
        # Large effects of next to no noise, and the other way round.
        far[2:, -1] *= -1.0
        with np.errstate(all="raise", under="ignore"):
            value, score = target.value_and_score(far)
        assert (value < target.log_density(np.zeros((1, target.dim)))).all()
        assert np.isfinite(score).all()


def mixture_of(dim):
    """Two Gaussians over the scales."""
    family = FullGaussian()
    means = 0.3 * np.random.default_rng(5).normal(size=(2, dim))
    pairs = [(family, family.from_moments(mean, 0.05 * np.eye(dim))) for mean in means]
    return Mixture(tuple(pairs), np.array([0.3, 0.7]))


@pytest.mark.parametrize("name", ["none", "crossed", "orbits"])
def test_what_is_lost_by_scales_alone_is_what_is_lost_by_all(name):
    """ln p(beta, z) - ln q(beta, z) is the same for all beta: it is that of z."""
    target, plain = targets(rows_of("slopes" if name == "orbits" else name))
    mixture = orbits_of(target) if name == "orbits" else mixture_of(target.dim)
    assert getattr(mixture, "orbiting", False) == (name == "orbits")
    both = pickle.loads(pickle.dumps(with_coefficients(mixture, target)))
    theta = both.sample(20, np.random.default_rng(6))
    z = theta[:, 2:]
    lost = plain.value_and_score(theta)[0] - both.log_density(theta)
    of_scales = target.value_and_score(z)[0] - mixture.log_density(z)
    np.testing.assert_allclose(lost, of_scales, atol=1e-8)
    # Moments are those of the mixture of scales, for each of its components, too.
    np.testing.assert_allclose(both.mean()[2:], mixture.mean(), rtol=1e-6)
    np.testing.assert_allclose(both.std()[2:], mixture.std(), rtol=1e-6)
    covariance = both.covariance()[2:, 2:]
    np.testing.assert_allclose(covariance, mixture.covariance(), atol=1e-6)


def orbits_of(target):
    """Its mixture, reweighted over eight images of every point."""
    mixture, rng = mixture_of(target.dim), np.random.default_rng(8)
    return reweighted(target, mixture, 8, 0.0, -np.inf, rng)[0]


def test_draws_of_many_images_are_made_of_known_ones():
    """They take no evaluations, and have the moments of the others."""
    target, _ = targets(rows_of("slopes"))
    part, rng = orbits_of(target).parts[0], np.random.default_rng(9)
    few = part.sample(2000, rng)
    before = target.n_evaluations
    many = part.sample(4000, rng)
    assert target.n_evaluations == before
    sd = part.std()
    np.testing.assert_allclose((many.mean(axis=0) - part.mean()) / sd, 0.0, atol=0.15)
    np.testing.assert_allclose(few.std(axis=0) / many.std(axis=0), 1.0, atol=0.15)


def test_moments_and_marginals_are_those_of_draws():
    rows = rows_of("slopes")
    target, _ = targets(rows)
    for component in with_coefficients(mixture_of(target.dim), target).components:
        draws = component.sample(20_000, np.random.default_rng(7))
        mean, covariance = component.moments()
        sd = np.sqrt(np.diag(covariance))
        np.testing.assert_allclose(component.std(), sd)
        # Moments are averages over 256 quasi-random draws.
        np.testing.assert_allclose((draws.mean(axis=0) - mean) / sd, 0.0, atol=0.05)
        size = np.outer(sd, sd)
        np.testing.assert_allclose(np.cov(draws.T) / size, covariance / size, atol=0.1)
        for i in range(component.dim):
            at, place = np.quantile(draws[:, i], [0.05, 0.5, 0.95]), np.full(3, i)
            cdf = component.marginal_cdf(place, at)
            np.testing.assert_allclose(cdf, [0.05, 0.5, 0.95], atol=0.03)
            step = 1e-4 * sd[i]
            above, below = (
                component.marginal_cdf(place, at + s) for s in (step, -step)
            )
            density = np.exp(component.marginal_log_density(place, at))
            slope = (above - below) / (2.0 * step)
            np.testing.assert_allclose(density * sd[i], slope * sd[i], atol=1e-4)


@pytest.mark.parametrize("scale", [None, SCALE], ids=["beside", "integrated"])
@pytest.mark.parametrize("name", ["slopes", "crossed"])
def test_rows_without_noise_have_no_density_beyond_that_of_no_residuals(name, scale):
    """Rounding left squares below zero, and a climb ended at a noise of 1e-11."""
    rows = of(name, normal, n=600, offset=False)
    Z, _ = effects_matrix(rows)
    rows = replace(rows, y=rows.X @ [1.0, -0.5] + 3.0 * Z.sum(axis=1))
    noise = np.linspace(-30.0, -12.0, 40)
    beta = np.empty((40, 0)) if scale is not None else np.tile([1.0, -0.4], (40, 1))
    levels = np.zeros((40, n_scales(rows)))
    value, _ = marginal_of(rows, scale=scale).value_and_score(beta, levels, noise)
    bound = -0.5 * rows.weight.sum() * (np.log(2.0 * np.pi) + 2.0 * noise)
    assert (value <= bound).all()


def test_matrices_that_rounding_leaves_without_a_root_are_told():
    known, none = np.array([[3.0, 1.0], [1.0, 2.0]]), np.full((2, 2), 1e17)
    roots, log_roots, lost = roots_of_inverses(np.stack([known, none]))
    assert lost.tolist() == [False, True]
    np.testing.assert_allclose(roots[0] @ roots[0].T @ known, np.eye(2), atol=1e-12)
    assert log_roots[0] == pytest.approx(0.5 * np.log(5.0))


# --- other likelihoods, by Laplace's method


def by_quadrature(rows, marginal, levels, *further):
    """Points of coefficients and logarithms of their masses, of which the sum is the
    integral over effects and coefficients at levels (1, n_levels).
    """
    centre, root = (part[0] for part in marginal.coefficients(levels, *further))
    node, share = hermegauss(9)
    nodes = np.stack(np.meshgrid(node, node), axis=-1).reshape(-1, 2)
    beta = centre + nodes @ root.T
    given = (np.repeat(level, len(beta), axis=0) for level in (levels, *further))
    value = marginal_of(rows, marginal.likelihood).value(beta, *given)
    value = value + NormalPrior().log_density(beta, SCALE)
    value += 0.5 * (nodes**2).sum(axis=1) + np.log(np.outer(share, share).ravel())
    return beta, value + np.log(np.linalg.det(root))


@pytest.mark.parametrize(
    ("likelihood", "response", "few"),
    [(*LIKELIHOODS[0], 1.0), (*LIKELIHOODS[1], 0.0)],
    ids=["quadrature", "gaussian"],
)
def test_weights_make_laplace_exact_for_coefficients(likelihood, response, few):
    rows, n = grouped(((3, 1),), response, n=40), 250
    levels, rng = np.array([[-0.5]]), np.random.default_rng(8)
    marginal = LaplaceMarginal(rows, likelihood, SCALE)
    normals = (*standard_normals(rows, n), rng.normal(size=(2, n, 1)))
    given = np.empty((n, 0)), np.repeat(levels, n, axis=0)
    (*_, coef), log_weights = marginal.weighted_effects(normals, *given, few=few)
    coef, weights = flattened([coef]), np.exp(log_weights).ravel()

    beta, value = by_quadrature(rows, marginal, levels)
    centre, root = (part[0] for part in marginal.coefficients(levels))
    exact = np.exp(value - logsumexp(value))
    found = marginal.value_and_score(np.empty((1, 0)), levels)[0][0]
    found += np.log(weights.mean())
    # Quadrature leaves the coefficients alone to draws.
    atol = 0.003 if few else 0.01
    assert found == pytest.approx(logsumexp(value), abs=atol)
    means = weights @ coef / weights.sum()
    spread = np.sqrt(np.diag(root @ root.T))
    # Halves of what is linear cancel in pairs of draws.
    np.testing.assert_allclose((means - exact @ beta) / spread, 0.0, atol=0.05)
    # What stands beside scales has the mean to first order.
    np.testing.assert_allclose((centre - exact @ beta) / spread, 0.0, atol=0.05)


@pytest.mark.parametrize(("likelihood", "response"), ALL_LIKELIHOODS)
def test_more_coefficients_than_groups_leave_the_finest_factor_first(
    likelihood, response
):
    """Effects that are drawn and those that are integrated say the same."""
    rows, n = grouped(((2, 1), (5, 1)), response, nested=True), 15
    X = np.random.default_rng(2).normal(size=(len(rows.y), 7))
    marginal = LaplaceMarginal(replace(rows, X=X), likelihood, np.full(7, 0.1))
    normals = (
        *standard_normals(rows, n),
        np.random.default_rng(4).normal(size=(7, n, 1)),
    )
    given = [np.empty((n, 0)), np.full((n, 2), -0.5)]
    given += [np.full(n, -0.5 * k) for k in range(likelihood.n_further)]
    drawn, summed = (
        np.exp(marginal.weighted_effects(normals, *given, few=few)[1]).mean(axis=0)
        for few in (0.0, 1.0)
    )
    apart = drawn - summed
    assert abs(apart.mean()) < 4.0 * apart.std() / np.sqrt(n)
    np.testing.assert_allclose(summed, 1.0, atol=0.5)


@pytest.mark.parametrize(("likelihood", "response"), LIKELIHOODS)
def test_coefficients_beside_scales_are_those_of_laplace(likelihood, response):
    """They are quadratics in the scales: no mode is searched at every draw."""
    rows = of("nested", response)
    priors = [HalfTPrior(3.0, 1.0)] * n_scales(rows)
    target = HierarchicalTarget(
        LaplaceMarginal(rows, likelihood, SCALE),
        NormalPrior(),
        SCALE,
        priors,
        [LowerBound() for _ in priors],
    )
    both = with_coefficients(mixture_of(target.dim), target).components[0]
    z = both.family.component.sample(20, np.random.default_rng(9))
    mean, root = target.coefficients(z)
    found, factor = both.family.target.coefficients(z)
    size = np.sqrt(np.einsum("spq,spq->sp", root, root))
    # Of what is cubic in scales that vary by a third, over draws.
    away = (found - mean) / size, (factor - root) / size[..., None]
    assert max(np.sqrt((each**2).mean(axis=0)).max() for each in away) < 0.01


def test_what_a_lattice_says_of_scales_and_coefficients_is_dense_quadrature():
    rows = rows_of("intercepts")
    target, _ = targets(rows)
    near = laplace(target, np.zeros(2), True, np.ones(2))
    lattice = Lattice.around(target, near, 1000)
    found = lattice.gaussian()
    for _ in range(3):
        found = lattice.split(found)
    mixture = lattice.judged(found).mixture
    # Out to eight standard deviations, at a fifth of what separates the nodes.
    axes = [
        m + np.linspace(-8.0, 8.0, 81) * s
        for m, s in zip(*moments(mixture), strict=True)
    ]
    z = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    value, _ = target.value_and_score(z)
    mass = np.exp(value - value.max())
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    evidence = np.log(mass.sum() * cell) + value.max()
    assert lattice.log_evidence.value == pytest.approx(evidence, abs=2e-3)
    share = mass / mass.sum()
    mean, sd = moments(mixture)
    np.testing.assert_allclose((share @ z - mean) / sd, 0.0, atol=0.01)
    np.testing.assert_allclose(np.sqrt(share @ (z - share @ z) ** 2) / sd, 1.0, 0.01)
    log_q = mixture.log_density(z)
    q = np.exp(log_q) * cell
    left = q @ (log_q - value) + evidence
    assert lattice.judged(found).remaining().value == pytest.approx(left, abs=2e-3)
    centres, roots = target.coefficients(z[share > 1e-7])
    share = share[share > 1e-7]
    whole = with_coefficients(mixture, target)
    variance = share @ (roots**2).sum(axis=2) + share @ (centres - share @ centres) ** 2
    # Averages over 256 quasi-random draws of each component.
    away = (whole.mean()[:2] - share @ centres) / np.sqrt(variance)
    np.testing.assert_allclose(away, 0.0, atol=0.02)
    np.testing.assert_allclose(whole.std()[:2] / np.sqrt(variance), 1.0, atol=0.02)


def moments(mixture):
    """Means and standard deviations."""
    return mixture.mean(), mixture.std()


def test_what_laplace_misses_is_learned_as_a_trend():
    """Of three rows a group the likelihood of scales is a third of a nat wrong."""
    likelihood, response = LIKELIHOODS[0]
    rows = grouped(((12, 1),), response, n=36)
    marginal, rng = LaplaceMarginal(rows, likelihood, SCALE), np.random.default_rng(10)
    levels, none = np.array([[-0.4], [0.0], [0.4]]), np.empty((3, 0))

    def errors():
        found = marginal.value_and_score(none, levels)[0]
        each = [by_quadrature(rows, marginal, one[None])[1] for one in levels]
        return found - [logsumexp(one) for one in each]

    before = errors()
    normals = (*standard_normals(rows, 3), rng.normal(size=(2, 3, 1)))
    weights = marginal.weighted_effects(normals, none, levels)[1]
    marginal.learn_missed(0.4 * rng.normal(size=(64, 1)))
    # A standard deviation of the draws around their mean. The error is no line.
    assert np.abs(before).max() > 0.2
    assert np.abs(errors()).max() < np.abs(before).max() / 3.0
    assert np.ptp(errors()) < np.ptp(before) / 3.0
    # Weights remain those of the exact density over what was drawn from.
    missed = before - errors()
    after = marginal.weighted_effects(normals, none, levels)[1]
    np.testing.assert_allclose(after, weights + missed, atol=1e-8)
    slopes = differences(lambda t: marginal.value(t[:, :0], t), levels, at_once=False)
    found = marginal.value_and_score(none, levels)[1]
    np.testing.assert_allclose(found, slopes, atol=1e-6)


# --- other likelihoods of one factor: by Laplace's method over quadrature


over = pytest.mark.parametrize(
    ("likelihood", "response", "name"),
    [
        (*ALL_LIKELIHOODS[0], "slopes"),
        (*ALL_LIKELIHOODS[1], "intercepts"),
        (*ALL_LIKELIHOODS[2], "intercepts"),
    ],
)


def over_quadrature(rows, likelihood, scales=0.4):
    """A marginal that has looked at some levels, these, and whether it can be used."""
    d = n_scales(rows) + likelihood.n_further
    levels = scales * np.random.default_rng(11).normal(size=(40, d))
    marginal = IntegratedQuadratureMarginal(rows, likelihood, SCALE)
    return marginal, levels, marginal.learn_missed(*apart(levels, rows))


def apart(theta, rows):
    """Logarithms of scales, and of what all rows share."""
    n = n_scales(rows)
    return theta[:, :n], *theta[:, n:].T


@over
def test_over_quadrature_scales_are_left(likelihood, response, name):
    rows = of(name, response)
    marginal, levels, reliable = over_quadrature(rows, likelihood)
    assert reliable

    def at(theta):
        return marginal.value_and_score(theta[:, :0], *apart(theta, rows))

    value, score = at(levels[:3])
    alone = marginal.value(levels[:3, :0], *apart(levels[:3], rows))
    np.testing.assert_allclose(alone, value, rtol=1e-10)
    # Where Newton steps end there are errors of a thousandth of a nat, which the
    # differences are of.
    slopes = differences(lambda theta: at(theta)[0], levels[:3], step=0.1)
    np.testing.assert_allclose(score, slopes, atol=0.05)
    for s in range(3):
        given = apart(levels[s : s + 1], rows)
        beta, masses = by_quadrature(rows, marginal, *given)
        evidence = logsumexp(masses)
        assert value[s] == pytest.approx(evidence, abs=0.02)
        share = np.exp(masses - evidence)
        mean, root = (part[0] for part in marginal.coefficients(*given))
        size = np.sqrt(share @ (beta - share @ beta) ** 2)
        np.testing.assert_allclose((mean - share @ beta) / size, 0.0, atol=0.015)
        spread = np.sqrt((root**2).sum(axis=1))
        np.testing.assert_allclose(spread / size, 1.0, atol=0.03)


@over
def test_over_quadrature_weights_make_draws_exact(likelihood, response, name):
    rows, n = of(name, response), 400
    marginal, levels, _ = over_quadrature(rows, likelihood)
    given = apart(levels[:1], rows)
    beta, masses = by_quadrature(rows, marginal, *given)
    share = np.exp(masses - logsumexp(masses))
    white = np.random.default_rng(12).normal(size=(2, n, 1))
    many = (np.repeat(level, n, axis=0) for level in given)
    normals = (*standard_normals(rows, n), white)
    (effects, coef), log_weights = marginal.weighted_effects(normals, None, *many)
    assert effects.shape == (2, n_scales(rows), n, 5)
    weight = np.exp(log_weights[0] - logsumexp(masses))
    # Nodes on each side of a mode are two here, and five in what is compared with.
    se = weight.std() / np.sqrt(n)
    assert weight.mean() == pytest.approx(1.0, abs=5.0 * se + 0.01)
    away = weight[:, None] * (coef[0, :, :, 0].T - share @ beta)
    assert (np.abs(away.mean(axis=0)) < 5.0 * away.std(axis=0) / np.sqrt(n)).all()


def test_coefficients_that_weights_cannot_correct_are_kept():
    """One success among single rows: scales and coefficients run off together."""
    rows = grouped(((40, 1),), zeros_and_ones, n=40, offset=False)
    rows = replace(rows, y=(np.arange(40) == 3).astype(float))
    *_, reliable = over_quadrature(rows, Logistic(), scales=3.0)
    assert not reliable


@pytest.mark.parametrize("name", ["intercepts", "slopes"])
def test_groups_with_the_same_rows_are_one(name):
    rows = of(name, zeros_and_ones, n=20)
    (factor,) = rows.factors
    # Three copies of every group, rows in another order, and a group without rows.
    order = np.random.default_rng(13).permutation(60)
    thrice = rows.taken(np.tile(np.arange(20), 3)[order])
    codes = (factor.codes + 5 * np.arange(3)[:, None]).ravel()[order]
    copies = replace(thrice.factors[0], codes=codes, n_groups=16)
    thrice = replace(thrice, factors=(copies,))
    found = QuadratureMarginal(thrice, Logistic())
    each = QuadratureMarginal(thrice, Logistic(), merge=False)
    assert (found.n_kinds, each.n_kinds) == (6, 16)
    theta = points(rows)
    given = theta[:, :2], theta[:, 2:]
    for one, other in zip(
        found.value_and_score(*given), each.value_and_score(*given), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)
    normals = standard_normals(thrice, 3)
    (one,), (other,) = (part.effects(normals, *given) for part in (found, each))
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)
    marginal, levels, _ = over_quadrature(thrice, Logistic())
    _, masses = by_quadrature(thrice, marginal, levels[:1])
    value = marginal.value(levels[:1, :0], levels[:1])
    # Of Laplace's method; a group more or less is worth nats.
    assert value[0] == pytest.approx(logsumexp(masses), abs=0.05)
