"""What `BoostedGaussianMixture` and its posterior share with other estimators."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris
from sklearn.metrics import adjusted_rand_score

from skboost.approximation import Mixture
from skboost.mixture import BoostedGaussianMixture, ConjugateMixturePosterior
from skboost.proposals import _conjugate

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore::skboost.posterior.ImportanceWarning",
)
IRIS = load_iris().data


@pytest.fixture(scope="module")
def iris():
    settings = {"max_iter": 2, "n_draws": 64, "n_restarts": 1, "random_state": 0}
    return BoostedGaussianMixture(3, **settings).fit(IRIS)


@pytest.fixture(scope="module")
def process(groups, model):
    kind = {"weight_concentration_prior_type": "dirichlet_process"}
    return model(n_components=3, weight_concentration_prior=5.0, **kind).fit(groups[0])


# --- moments


def test_the_summary_of_iris_agrees_with_the_means(iris):
    table = iris.posterior_.summary()
    means = np.asarray(table["mean"])[3:].reshape(3, 4)
    assert_allclose(means, iris.means_, rtol=1e-12)
    std = np.asarray(table["std"])
    assert_allclose(std[3:].reshape(3, 4), iris.posterior_.std()["means"])
    # A cluster that a component leaves empty has no variance, and says so.
    assert np.all(std[~np.isinf(std)] < 1.0)


def two_components(posterior, groups):
    """The posterior with a second component, from half of the rows."""
    X, labels = groups
    model, (family, params) = posterior.model, posterior.mixture.components[0]
    natural = model.start(model.rows(X[:40]), np.eye(2)[labels[:40]])
    components = ((family, params), (family, family.params(natural)))
    mixture = Mixture(components, np.array([0.6, 0.4]))
    return ConjugateMixturePosterior(mixture, posterior.settings)


def test_moments_are_those_of_draws(fitted, groups):
    posterior = two_components(fitted.posterior_, groups)
    draws = posterior.sample(20_000, random_state=0)
    std, covariance = posterior.std(), posterior.covariance()
    mean = posterior.mean()
    for name in ("weights", "means", "precisions"):
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


# --- draws


def test_truncating_keeps_the_heaviest(fitted, groups):
    posterior = two_components(fitted.posterior_, groups)
    one = posterior.truncate(1)
    assert one.n_components == 1
    heaviest = posterior.components[int(np.argmax(posterior.weights))]
    assert_allclose(one.mean()["means"], posterior.model.means(heaviest))
    assert posterior.truncate(100).n_components == posterior.n_components
    with pytest.raises(ValueError, match="k must be a positive integer"):
        posterior.truncate(0)


@pytest.mark.parametrize("name", ["fitted", "process"])
def test_the_log_joint_has_the_bound_as_its_mean(name, groups, request):
    fit = request.getfixturevalue(name)
    draws = fit.sample_posterior(4000, random_state=1)
    values = fit.make_log_joint(groups[0])(draws) - fit.posterior_.log_density(draws)
    se = np.hypot(values.std() / np.sqrt(4000), fit.elbo_se_)
    assert abs(values.mean() - fit.elbo_) < 5 * se


def test_resampling_goes_towards_the_log_joint(fitted, groups):
    log_joint = fitted.make_log_joint(groups[0])
    # Twice the mass where the first weight is large.
    draws = fitted.posterior_.sample(4000, random_state=0)
    middle = np.median(draws["weights"][:, 0])

    def tilted(draws):
        return log_joint(draws) + np.log(2.0) * (draws["weights"][:, 0] > middle)

    found = fitted.posterior_.resample(tilted, 2000, random_state=0)
    plain = fitted.posterior_.resample(log_joint, 2000, random_state=0)
    assert {key: value.shape[1:] for key, value in found.items()} == {
        key: value.shape[1:] for key, value in draws.items()
    }
    above, before = (np.mean(d["weights"][:, 0] > middle) for d in (found, plain))
    assert abs(above - 2 * before / (1 + before)) < 0.06
    with pytest.raises(ValueError, match="log_joint must be finite"):
        fitted.posterior_.resample(lambda draws: np.full(len(draws["means"]), np.nan))


@pytest.mark.slow
def test_arviz_gets_named_arrays(fitted):
    pytest.importorskip("arviz")
    data = fitted.posterior_.to_arviz(n=40, n_chains=2, random_state=0)
    assert data.posterior["means"].shape == (2, 20, 2, 2)
    assert data.posterior["weights"].shape == (2, 20, 2)


def test_draws_of_the_estimator_are_those_of_its_posterior(fitted):
    ours = fitted.sample_posterior(3, random_state=0)
    theirs = fitted.posterior_.sample(3, random_state=0)
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)
    with pytest.raises(ValueError, match="n_draws must be a positive integer"):
        fitted.sample_posterior(0)


# --- the Dirichlet process


def test_draws_of_the_process_leave_a_rest(process, tmp_path):
    draws = process.sample_posterior(500, random_state=0)
    assert_allclose(draws["weights"].sum(axis=1) + draws["leftover"], 1.0)
    assert process.weights_.sum() == pytest.approx(1.0)
    mean = process.posterior_.mean()
    assert mean["weights"].sum() + mean["leftover"] == pytest.approx(1.0)
    assert 0 < mean["leftover"] < 0.2
    names = list(process.posterior_.summary().index)
    assert "leftover" in names
    process.posterior_.save(tmp_path / "file.npz")
    loaded = ConjugateMixturePosterior.load(tmp_path / "file.npz")
    expected = process.posterior_.log_density(draws)
    assert_allclose(loaded.log_density(draws), expected)
    assert process.posterior_.marginal("leftover").quantile(0.5) > 0


def test_rows_of_the_process_belong_to_its_clusters(process):
    X, labels = process.sample(3000, random_state=0)
    share = np.bincount(labels, minlength=3) / 3000
    se = np.sqrt(share * (1 - share) / 3000)
    assert np.all(np.abs(share - process.weights_) < 5 * se + 1e-3)
    # The predictive density is one.
    inside = np.exp(process.score_samples(X)).mean()
    assert np.isfinite(inside)


# --- scikit-learn's names


def test_fitted_priors_and_bounds_have_scikit_learns_names(fitted, groups):
    X, _ = groups
    assert fitted.lower_bound_ == fitted.elbo_
    assert len(fitted.lower_bounds_) == fitted.n_iter_
    assert_allclose(fitted.mean_prior_, X.mean(axis=0))
    assert_allclose(fitted.covariance_prior_, np.cov(X.T))
    assert fitted.weight_concentration_prior_ == 0.5
    root = fitted.precisions_cholesky_
    assert_allclose(root @ np.swapaxes(root, -1, -2), fitted.precisions_)
    total = fitted.score_samples(X).sum()
    assert fitted.aic(X) == pytest.approx(2 * 11 - 2 * total)
    assert fitted.bic(X) == pytest.approx(11 * np.log(len(X)) - 2 * total)


def test_the_first_start_is_the_given_one(groups, model, monkeypatch):
    X, labels = groups
    means = np.array([X[labels == k].mean(axis=0) for k in (0, 1)])
    starts, ascend = [], _conjugate.coordinate_ascent

    def spy(target, natural, *limits):
        starts.append(target.model.means(natural))
        return ascend(target, natural, *limits)

    monkeypatch.setattr(_conjugate, "coordinate_ascent", spy)
    for order in ([0, 1], [1, 0]):
        starts.clear()
        model(max_iter=1, means_init=means[order]).fit(X)
        assert_allclose(starts[0], means[order], atol=0.5)
    with pytest.raises(ValueError, match="means_init must be finite and of shape"):
        model(means_init=means[:1]).fit(X)


def test_reg_covar_is_in_the_log_joint(groups, model):
    X, _ = groups
    plain = model(max_iter=1).fit(X)
    wide = model(max_iter=1, reg_covar=0.5).fit(X)
    draws = plain.sample_posterior(5, random_state=0)
    traces = np.einsum("nkdd->nk", draws["precisions"])
    lost = plain.make_log_joint(X)(draws) - wide.make_log_joint(X)(draws)
    assert np.all(lost >= 0.25 * len(X) * traces.min(axis=1))
    assert np.all(lost <= 0.25 * len(X) * traces.max(axis=1))
    assert np.linalg.eigvalsh(wide.covariances_).min() > 0.4


def test_verbose_writes_every_iteration(groups, model, capsys):
    fit = model(verbose=2).fit(groups[0])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Boosting."
    assert len(lines) == 2 + fit.n_iter_
    assert "iteration 1" in lines[1] and "nats" in lines[1]


def test_the_settings_that_the_guide_advises_find_the_species():
    prior = {"covariance_type": "tied", "mean_precision_prior": 0.01}
    model = BoostedGaussianMixture(3, max_iter=1, random_state=0, **prior).fit(IRIS)
    assert adjusted_rand_score(load_iris().target, model.predict(IRIS)) > 0.85
