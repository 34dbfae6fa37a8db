"""The boosted mixture: closed forms, the predictive density, the posterior object."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.integrate import quad
from scipy.special import logsumexp, multigammaln

from skboost.approximation import Mixture
from skboost.mixture import ConjugateMixturePosterior

from .conftest import two_groups

pytestmark = pytest.mark.filterwarnings("ignore::skboost.posterior.ImportanceWarning")


# --- one cluster: everything is known


@pytest.fixture(scope="module")
def single(groups, model):
    """A fit of one cluster, and m, precision, dof, rate by closed forms."""
    X, _ = groups
    n, dim = X.shape
    rate = np.cov(X.T) + (n - 1) * np.cov(X.T)
    fit = model(n_components=1, covariance_prior=None).fit(X)
    return fit, X.mean(axis=0), 1.0 + n, dim + n, rate


def test_one_cluster_predicts_by_its_student_t(groups, single):
    X, _ = groups
    fit, mean, precision, dof, rate = single
    df = dof - X.shape[1] + 1
    scale = rate * (precision + 1) / (precision * df)
    expected = stats.multivariate_t(mean, scale, df).logpdf(X)
    assert_allclose(fit.score_samples(X), expected, atol=1e-3)


def test_one_cluster_has_the_exact_evidence(groups, single):
    X, _ = groups
    n, dim = X.shape
    fit, _, precision, dof, rate = single
    exact = (
        -0.5 * n * dim * np.log(np.pi)
        + multigammaln(dof / 2, dim)
        - multigammaln(dim / 2, dim)
        + 0.5 * dim * np.linalg.slogdet(np.cov(X.T))[1]
        - 0.5 * dof * np.linalg.slogdet(rate)[1]
        - 0.5 * dim * np.log(precision)
    )
    assert_allclose(fit.elbo_, exact, atol=4.0 * fit.elbo_se_ + 1e-6)


def test_marginals_of_one_cluster(single):
    fit, mean, precision, dof, rate = single
    df = dof - len(mean) + 1
    exact = stats.t(df, mean[1], np.sqrt(rate[1, 1] / (precision * df)))
    marginal = fit.posterior_.marginal("means[0, 1]")
    p = np.array([0.05, 0.5, 0.95])
    # Quantiles of 8,192 draws: standard error about sqrt(p (1 - p) / n) / pdf.
    error = np.sqrt(p * (1 - p) / 8192) / exact.pdf(exact.ppf(p))
    assert (np.abs(marginal.quantile(p) - exact.ppf(p)) < 4.0 * error).all()
    assert_allclose(marginal.cdf(exact.ppf(p)), p, atol=0.025)


def test_a_temperature_counts_rows_in_part(groups, model):
    X, _ = groups
    fit = model(n_components=1, temperature=0.25).fit(X)
    n, dim = X.shape
    rate = (1.0 + 0.25 * (n - 1)) * np.cov(X.T)
    df = 0.25 * n + 1
    exact = np.diag(rate) / ((1.0 + 0.25 * n) * df) * df / (df - 2)
    found = fit.posterior_.sample(20_000, 0)["means"][:, 0].var(axis=0)
    # A variance from 20,000 draws: standard error one per cent, and heavier tails.
    assert_allclose(found, exact, rtol=0.06)


# --- the predictive distribution


def test_the_predictive_density_averages_over_draws(fitted, groups):
    X = groups[0][:20]
    draws = fitted.posterior_.sample(10_000, random_state=1)
    densities = np.zeros((len(draws["weights"]), len(X)))
    for k in range(2):
        away = X - draws["means"][:, k, None]
        precision = draws["precisions"][:, k]
        squares = np.einsum("snd,sde,sne->sn", away, precision, away, optimize=True)
        log_det = np.linalg.slogdet(precision)[1][:, None]
        density = np.exp(0.5 * (log_det - squares)) / (2 * np.pi)
        densities += draws["weights"][:, k, None] * density
    error = densities.std(axis=0) / np.sqrt(len(densities))
    found = np.exp(fitted.score_samples(X))
    assert (np.abs(found - densities.mean(axis=0)) < 4.5 * error).all()


def test_probabilities_are_shares_of_the_predictive_density(fitted, groups):
    X, labels = groups
    proba = fitted.predict_proba(X)
    assert_allclose(proba.sum(axis=1), 1.0)
    assert np.array_equal(fitted.predict(X), proba.argmax(axis=1))
    agree = (fitted.predict(X) == labels).mean()
    assert max(agree, 1.0 - agree) > 0.95


def test_a_missing_value_is_marginalised(fitted):
    """Density of what is seen: the integral over what is not."""
    x = 0.7
    found = fitted.score_samples([[x, np.nan]])[0]
    mass, _ = quad(
        lambda y: np.exp(fitted.score_samples([[x, y]])[0]), -100, 100, points=[0, 4],
        limit=300,
    )  # fmt: skip
    assert_allclose(np.exp(found), mass, rtol=1e-5)
    assert fitted.score_samples([[np.nan, np.nan]])[0] == pytest.approx(0.0, abs=1e-9)


def test_sampled_rows_have_the_predictive_law(fitted):
    X, labels = fitted.sample(4000, random_state=3)
    assert X.shape == (4000, 2)
    assert_allclose(np.bincount(labels) / 4000, fitted.weights_, atol=0.04)
    for k in range(2):
        assert_allclose(X[labels == k].mean(axis=0), fitted.means_[k], atol=0.12)
    # E over the distribution of its own density, two ways.
    half = fitted.score_samples(X[:2000]), fitted.score_samples(X[2000:])
    error = np.hypot(*[np.std(part) / np.sqrt(2000) for part in half])
    assert abs(half[0].mean() - half[1].mean()) < 4.0 * error


# --- the posterior


@pytest.fixture(scope="module")
def posterior(fitted, groups):
    """The posterior with a second component, from half of the rows."""
    (X, labels), one = groups, fitted.posterior_
    component = one.mixture.components[0]
    natural = one.model.start(one.model.rows(X[:40]), np.eye(2)[labels[:40]])
    other = component.with_params(component.family.params(natural))
    components = (component, other)
    mixture = Mixture(components, np.array([0.6, 0.4]))
    return ConjugateMixturePosterior(mixture, one.settings)


def test_moments_are_those_of_draws(fitted, posterior):
    draws = posterior.sample(20_000, random_state=0)
    std, covariance = posterior.std(), posterior.covariance()
    mean = posterior.mean()
    for name in ("weights", "means", "precisions"):
        error = draws[name].std(axis=0) / np.sqrt(20_000)
        assert (np.abs(draws[name].mean(axis=0) - mean[name]) < 5.0 * error).all()
        squares = (draws[name] - mean[name]) ** 2
        se = squares.std(axis=0) / np.sqrt(len(squares))
        assert np.all(np.abs(squares.mean(axis=0) - std[name] ** 2) < 5 * se)
    for name in ("weights", "means"):
        away = (draws[name] - mean[name]).reshape(20_000, -1)
        products = away[:, :, None] * away[:, None, :]
        exact = covariance[name].reshape(products.shape[1:])
        se = products.std(axis=0) / np.sqrt(20_000)
        assert np.all(np.abs(products.mean(axis=0) - exact) < 5 * se)
        assert_allclose(np.sqrt(np.diag(exact)), std[name].ravel())
    mean = fitted.posterior_.mean()
    assert np.array_equal(fitted.means_, mean["means"])
    assert_allclose(np.linalg.inv(mean["precisions"]), fitted.covariances_)


def test_the_density_is_that_of_the_model(posterior):
    draws = posterior.sample(2000, random_state=0)
    parts = [posterior.model.log_density(own, draws) for own in posterior.components]
    expected = logsumexp(np.array(parts).T + np.log(posterior.weights), axis=1)
    assert_allclose(posterior.log_density(draws), expected, rtol=1e-9, atol=1e-7)
    # The heaviest component alone.
    assert_allclose(posterior.truncate(1).log_density(draws), parts[0], atol=1e-7)


@pytest.mark.parametrize("covariance_type", ["full", "spherical"])
def test_saved_and_loaded(covariance_type, groups, model, tmp_path):
    fit = model(covariance_type=covariance_type).fit(groups[0])
    path = tmp_path / "posterior.npz"
    fit.posterior_.save(path)
    loaded = ConjugateMixturePosterior.load(path)
    draws = fit.posterior_.sample(10, random_state=0)
    assert np.array_equal(loaded.log_density(draws), fit.posterior_.log_density(draws))
    again = loaded.sample(10, random_state=0)
    assert all(np.array_equal(draws[name], again[name]) for name in draws)
    np.savez(path, a=np.ones(3))
    with pytest.raises(ValueError, match="ConjugateMixturePosterior.save"):
        ConjugateMixturePosterior.load(path)


def test_marginals_intervals_and_summary_agree(fitted):
    posterior = fitted.posterior_
    interval = posterior.interval(0.8)
    assert interval["weights"].shape == (2, 2)
    assert interval["means"].shape == (2, 2, 2)
    assert interval["covariances"].shape == (2, 2, 2, 2)
    assert_allclose(posterior.interval()["means"], posterior.interval(0.9)["means"])
    places = {"weights": (1,), "means": (0, 1), "covariances": (1, 0, 0)}
    for name, place in places.items():
        marginal = posterior.marginal(f"{name}{list(place)}")
        assert_allclose(marginal.interval(0.8), interval[name][place], rtol=1e-6)
        grid = np.linspace(*marginal.interval(0.999), 800)
        mass = np.trapezoid(marginal.pdf(grid), grid)
        assert_allclose(mass, 0.999, atol=0.02)
    assert repr(posterior.marginal("means[0,1]")) == repr(marginal)
    table, std = posterior.summary(), posterior.std()
    assert table.index[3] == "means[0, 1]"
    means = np.append(fitted.weights_, fitted.means_)
    assert_allclose(np.asarray(table["mean"]), means, rtol=1e-12)
    stds = np.append(std["weights"], std["means"])
    assert_allclose(np.asarray(table["std"]), stds)


@pytest.mark.parametrize("name", ["weights", "weights[2]", "mean[0]", "means[0]", 3])
def test_unknown_marginals_are_refused(name, fitted):
    with pytest.raises(ValueError, match="name must be an entry"):
        fitted.posterior_.marginal(name)


def test_draws_of_a_wrong_shape_are_refused(fitted):
    draws = fitted.posterior_.sample(3, random_state=0)
    for change, message in [
        ({"means": draws["means"][:, :1]}, "means"),
        ({"precisions": np.nan}, "precisions"),
        ({"means": draws["means"][:2]}, "equally many; got {'weights': 3, 'means': 2"),
    ]:
        with pytest.raises(ValueError, match=message):
            fitted.posterior_.log_density(draws | change)


def test_resampling_goes_towards_the_log_joint(fitted, groups):
    log_joint = fitted.make_log_joint(groups[0])
    # Twice the mass where the first weight is large.
    draws = fitted.posterior_.sample(4000, random_state=0)
    middle = np.median(draws["weights"][:, 0])

    def tilted(draws):
        return log_joint(draws) + np.log(2.0) * (draws["weights"][:, 0] > middle)

    found, plain = (
        fitted.posterior_.resample(target, 2000, random_state=0)
        for target in (tilted, log_joint)
    )
    assert {key: value.shape[1:] for key, value in found.items()} == {
        key: value.shape[1:] for key, value in draws.items()
    }
    above, before = (np.mean(d["weights"][:, 0] > middle) for d in (found, plain))
    assert abs(above - 2 * before / (1 + before)) < 0.06
    with pytest.raises(ValueError, match="log_joint must be finite"):
        fitted.posterior_.resample(lambda draws: np.full(len(draws["means"]), np.nan))


# --- the Dirichlet process


@pytest.fixture(scope="module")
def process(groups, model):
    kind = {"weight_concentration_prior_type": "dirichlet_process"}
    return model(n_components=3, weight_concentration_prior=5.0, **kind).fit(groups[0])


def test_draws_of_the_process_leave_a_rest(process, tmp_path):
    draws = process.sample_posterior(500, random_state=0)
    assert_allclose(draws["weights"].sum(axis=1) + draws["leftover"], 1.0)
    assert process.weights_.sum() == pytest.approx(1.0)
    mean = process.posterior_.mean()
    assert mean["weights"].sum() + mean["leftover"] == pytest.approx(1.0)
    assert 0 < mean["leftover"] < 0.2
    assert "leftover" in process.posterior_.summary().index
    assert process.posterior_.marginal("leftover").quantile(0.5) > 0
    process.posterior_.save(tmp_path / "file.npz")
    loaded = ConjugateMixturePosterior.load(tmp_path / "file.npz")
    expected = process.posterior_.log_density(draws)
    assert_allclose(loaded.log_density(draws), expected)


def test_rows_of_the_process_belong_to_its_clusters(groups, model):
    kind = {"weight_concentration_prior_type": "dirichlet_process"}
    # Half of the mass is left to clusters beyond the last, which are no rows' clusters.
    fit = model(n_components=2, weight_concentration_prior=40.0, max_iter=1, **kind)
    fit.fit(groups[0][:40])
    assert fit.posterior_.mean()["leftover"] > 0.3
    X, labels = fit.sample(3000, random_state=0)
    share = np.bincount(labels, minlength=2) / 3000
    se = np.sqrt(share * (1 - share) / 3000)
    assert np.all(np.abs(share - fit.weights_) < 5 * se + 1e-3)
    assert np.isfinite(fit.score_samples(X)).all()


@pytest.mark.parametrize("name", ["fitted", "process"])
def test_the_log_joint_has_the_bound_as_its_mean(name, groups, request):
    fit = request.getfixturevalue(name)
    draws = fit.sample_posterior(4000, random_state=1)
    values = fit.make_log_joint(groups[0])(draws) - fit.posterior_.log_density(draws)
    se = np.hypot(values.std() / np.sqrt(4000), fit.elbo_se_)
    assert abs(values.mean() - fit.elbo_) < 5 * se


# --- what the ELBO says


def test_superfluous_clusters_stay_empty(model):
    X, _ = two_groups(120, apart=6.0)
    fit = model(n_components=6, weight_concentration_prior=1e-2).fit(X)
    assert fit.n_components_effective_ == 2


def test_known_covariances_are_kept(groups, model):
    fit = model(covariance_type="spherical", known_covariances=0.5).fit(groups[0])
    assert_allclose(fit.covariances_, 0.5)
    draws = fit.posterior_.sample(4, random_state=0)
    assert_allclose(draws["precisions"], 2.0)
    # One weight and two means of two numbers are free.
    total = fit.score_samples(groups[0]).sum()
    assert fit.aic(groups[0]) == pytest.approx(2 * 5 - 2 * total)


def test_boosting_ends_where_little_remains_and_no_optimum_is_missing(groups, model):
    X, _ = groups
    settings = {"max_iter": 4, "covariance_prior": None}
    fit, longer = model(**settings).fit(X), model(tol=1e-4, **settings).fit(X)
    assert fit.n_iter_ == 1 and "every optimum" in fit.message_
    assert fit.remaining_kl_ < 1.0
    assert longer.n_iter_ > 1
