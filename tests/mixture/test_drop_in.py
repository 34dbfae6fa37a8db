"""What `SVIGaussianMixture` takes over from scikit-learn's mixtures."""

import itertools
import warnings
from copy import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture

from skboost.conjugate import STARTS
from skboost.mixture import SVIGaussianMixture

from ..kinds import over

TYPES = ["full", "tied", "diag", "spherical"]
PRIORS = ["dirichlet_distribution", "dirichlet_process"]
IRIS = load_iris().data
# As scikit-learn has it; a scale that is learned takes ten times as long.
PLAIN = {"covariance_prior": None}


def shares(values, reach, n):
    """Responsibilities that follow from a row alone."""
    slopes = np.linspace(-reach, reach, n * values.shape[1]).reshape(-1, n)
    parts = np.exp(4.0 * np.sin(values @ slopes))
    return parts / parts.sum(axis=1, keepdims=True)


class Theirs(BayesianGaussianMixture):
    reach = 1.0

    def _initialize_parameters(self, X, random_state, xp=None):
        self._initialize(X, shares(X - X.mean(axis=0), self.reach, self.n_components))


def both(monkeypatch, prior_type, reach=1.0, n=3):
    """Fits of both from the same responsibilities, to rounding."""
    monkeypatch.setattr(Theirs, "reach", reach)
    start = {"random": lambda values, *rest: shares(values, reach, n)}
    monkeypatch.setitem(STARTS, *start.popitem())
    settings = {"n_components": n, "weight_concentration_prior_type": prior_type}
    settings |= {"tol": 1e-11, "max_iter": 3000, "init_params": "random"}
    theirs = Theirs(reg_covar=0.0, **settings).fit(IRIS)
    ours = SVIGaussianMixture(**PLAIN, **settings).fit(IRIS)
    assert ours.converged_ and theirs.converged_
    return ours, theirs


@pytest.mark.parametrize("prior_type", PRIORS)
def test_every_attribute_is_scikit_learns(prior_type, monkeypatch):
    ours, theirs = both(monkeypatch, prior_type)
    # The predictive density differs, the assignments do not.
    assert_allclose(ours.predict_proba(IRIS), theirs.predict_proba(IRIS), atol=1e-5)
    for name, value in vars(theirs).items():
        if not name.endswith("_") or name in ("lower_bound_", "lower_bounds_"):
            continue
        if name not in ("n_iter_", "converged_"):
            assert_allclose(getattr(ours, name), value, rtol=1e-4, atol=1e-6)
    assert ours.lower_bound_ == ours.elbo_ == ours.lower_bounds_[-1]


@over("prior_type", PRIORS, slow=PRIORS[1:])
def test_the_bounds_differ_by_a_constant(prior_type, monkeypatch):
    one, other = (both(monkeypatch, prior_type, reach, n=5) for reach in (1.0, 0.3))
    rise, theirs = (
        a.lower_bound_ - b.lower_bound_ for a, b in zip(one, other, strict=True)
    )
    assert abs(rise) > 1.0
    assert rise == pytest.approx(theirs, rel=1e-6)


@pytest.mark.parametrize(
    ("covariance_type", "prior_type"), [*zip(TYPES, 2 * PRIORS, strict=True)]
)
def test_attributes_have_scikit_learns_shapes(covariance_type, prior_type):
    settings = {"n_components": 3, "weight_concentration_prior_type": prior_type}
    settings |= {"covariance_type": covariance_type, "random_state": 0, "max_iter": 5}
    theirs = BayesianGaussianMixture(**settings).fit(IRIS)
    ours = SVIGaussianMixture(**PLAIN, **settings).fit(IRIS)
    for name, value in vars(theirs).items():
        # Their bound is an array of one number where covariances are tied.
        if name.endswith("_") and name not in ("lower_bound_", "lower_bounds_"):
            assert np.shape(getattr(ours, name)) == np.shape(value), name
    assert len(ours.lower_bounds_) == ours.n_iter_
    root = ours.precisions_cholesky_
    product = root**2
    if covariance_type in ("full", "tied"):
        product = root @ np.swapaxes(root, -1, -2)
        assert np.array_equal(root, np.triu(root))
    assert_allclose(product, ours.precisions_, rtol=1e-8)


@pytest.mark.parametrize("prior_type", PRIORS[1:] + ["finite_dirichlet_process"])
def test_the_concentration_that_was_used_is_the_one_that_was_given(prior_type):
    kind = PLAIN | {"weight_concentration_prior_type": prior_type}
    fitted = SVIGaussianMixture(4, weight_concentration_prior=0.6, **kind).fit(IRIS)
    assert fitted.weight_concentration_prior_ == pytest.approx(0.6)


def test_parameters_that_a_prior_lacks_are_none():
    model = SVIGaussianMixture(2, mean_prior_type="independent").fit(IRIS)
    assert model.mean_precision_ is None
    assert model.degrees_of_freedom_.shape == (2,)
    model.set_params(known_covariances=np.eye(4)).fit(IRIS)
    assert model.degrees_of_freedom_ is None and model.covariance_prior_ is None
    average = IRIS.var(axis=0, ddof=1).mean()
    assert model.mean_precision_prior_ == pytest.approx(0.1 / average)
    model.set_params(mean_precision_prior=0.5).fit(IRIS)
    assert model.mean_precision_prior_ == pytest.approx(0.5)


def test_missing_entries_count_each_feature_for_itself():
    X = IRIS.copy()
    X[::5, 2] = np.nan
    model = SVIGaussianMixture(2, covariance_type="diag", random_state=0).fit(X)
    assert model.degrees_of_freedom_.shape == model.mean_precision_.shape == (2, 4)
    lost = model.degrees_of_freedom_[:, 0] - model.degrees_of_freedom_[:, 2]
    assert lost.sum() == pytest.approx(30)


# --- the Dirichlet process


def test_the_process_takes_batches_streams_and_noise():
    settings = {"batch_size": 40, "effective_batch_size": 20, "max_iter": 10}
    settings |= PLAIN | {"weight_concentration_prior_type": "dirichlet_process"}
    model = SVIGaussianMixture(3, random_state=0, **settings).fit(IRIS)
    assert np.isfinite(model.elbo_)
    assert np.isfinite(model.partial_fit(IRIS[:30]).elbo_)
    draws = model.sample_posterior(50, random_state=0)
    assert_allclose(draws["weights"].sum(axis=1) + draws["leftover"], 1.0)
    assert model.weights_.sum() == pytest.approx(1.0)


# --- starts


def test_given_parameters_are_where_the_first_step_begins():
    theirs = GaussianMixture(3, random_state=0).fit(IRIS)
    names = "weights", "means", "precisions"
    given = {f"{name}_init": getattr(theirs, f"{name}_") for name in names}
    # A first batch is nothing but the start.
    model = SVIGaussianMixture(3, **given).partial_fit(IRIS)
    count = theirs.predict_proba(IRIS).sum(axis=0)
    assert_allclose(model.weight_concentration_ - 3.0, count, rtol=1e-6)


@pytest.mark.parametrize("covariance_type", ["full", "spherical"])
def test_each_given_parameter_alone_will_do(covariance_type):
    settings = {"covariance_type": covariance_type, "random_state": 0, "max_iter": 2}
    settings |= PLAIN
    plain = SVIGaussianMixture(2, **settings).fit(IRIS)
    for name in ("weights", "means", "precisions"):
        given = {f"{name}_init": getattr(plain, f"{name}_")}
        SVIGaussianMixture(2, **settings, **given).fit(IRIS)
    # Clusters come in the order of the means.
    for order in ([0, 1], [1, 0]):
        means = plain.means_[order]
        model = SVIGaussianMixture(2, means_init=means, **settings).fit(IRIS)
        assert_allclose(model.means_, means, atol=0.5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"weights_init": [0.5, 0.6]}, "weights_init must be non-negative and sum to"),
        ({"weights_init": [1.0]}, r"weights_init must be finite and of shape \(2,\)"),
        ({"means_init": [[0.0, 0.0]]}, r"means_init must be finite and of shape"),
        ({"precisions_init": [-np.eye(4)] * 2}, "precisions_init must be symmetric"),
        ({"means_init": np.full((2, 4), 1e200)}, "give every row a positive density"),
    ],
)
def test_starts_that_are_none_are_refused(given, message):
    model = SVIGaussianMixture(2, random_state=0, **PLAIN).fit(IRIS)
    before = model.means_
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(ValueError, match=message),
    ):
        model.set_params(**given).fit(IRIS)
    assert model.means_ is before


def test_a_seeded_start_does_not_depend_on_the_origin():
    one = SVIGaussianMixture(3, random_state=0, **PLAIN).fit(IRIS)
    two = SVIGaussianMixture(3, random_state=0, **PLAIN).fit(IRIS + 64.0)
    assert_allclose(two.means_ - 64.0, one.means_, atol=1e-8, rtol=0)


# --- small things


def test_reg_covar_widens_every_cluster():
    tight = SVIGaussianMixture(2, random_state=0, **PLAIN).fit(IRIS)
    wide = SVIGaussianMixture(2, reg_covar=0.5, random_state=0, **PLAIN).fit(IRIS)
    assert np.all(np.diff(wide.elbo_path_) >= -1e-8)
    eigenvalues = np.linalg.eigvalsh
    assert np.all(eigenvalues(wide.covariances_)[:, 0] > 0.4)
    assert np.all(eigenvalues(tight.covariances_)[:, 0] < 0.1)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_criteria_count_scikit_learns_parameters(covariance_type):
    ours = SVIGaussianMixture(2, covariance_type=covariance_type, **PLAIN).fit(IRIS)
    theirs = GaussianMixture(2, covariance_type=covariance_type).fit(IRIS)
    p, total = theirs._n_parameters(), ours.score_samples(IRIS).sum()
    assert ours.aic(IRIS) == pytest.approx(2 * p - 2 * total)
    assert ours.bic(IRIS) == pytest.approx(p * np.log(150) - 2 * total)
    # Every row counts once, as in scikit-learn, however many coordinates it has.
    rise = ours.degrees_of_freedom_ - ours.degrees_of_freedom_prior_
    assert rise.sum() == pytest.approx(150)


def test_verbose_writes_what_it_is_asked_for(capsys, monkeypatch):
    settings = {"max_iter": 20, "tol": 0.0}
    settings |= {"init_params": "random", "random_state": 0}
    SVIGaussianMixture(2, **settings).fit(IRIS)
    assert capsys.readouterr().out == ""
    SVIGaussianMixture(2, n_init=2, verbose=1, **settings).fit(IRIS)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Initialization 0."
    assert lines[1] == "  Initialization 0, iteration 10."
    assert sum("iteration" in line for line in lines) == 4
    assert lines[-1] == "Initialization 1 did not converge."
    # A clock that is one, two, three, ... seconds later whenever it is looked at.
    ticks = itertools.accumulate(itertools.count(1.0))
    monkeypatch.setattr("skboost.mixture._messages.perf_counter", lambda: next(ticks))
    SVIGaussianMixture(2, n_init=1, verbose=2, **settings).fit(IRIS)
    lines = capsys.readouterr().out.splitlines()
    assert "bound" in lines[1] and "nats" in lines[-1]
    # Since the one before, and of the whole run.
    seconds = [float(line.split(", ")[-2][:-2]) for line in lines[1:]]
    assert seconds == [2.0, 3.0, 9.0]


# --- streams


def test_a_stream_goes_on_after_a_fit_of_its_first_rows():
    model = SVIGaussianMixture(3, n_init=3, random_state=0).fit(IRIS[:100])
    slow, fast = (copy(model).set_params(learning_rate=r) for r in (1e-9, 1.0))
    for each in (slow, fast):
        each.partial_fit(IRIS[100:])
        assert_allclose(each.mean_prior_, IRIS[:100].mean(axis=0))
    # By the slowest rates nothing is forgotten, by a rate of one all.
    assert slow.weight_concentration_.sum() == pytest.approx(150 + 3 * 3)
    assert not np.allclose(slow.means_, fast.means_)


def test_a_given_prior_is_not_taken_from_the_first_batch():
    model = SVIGaussianMixture(2, mean_prior=IRIS.mean(0), covariance_prior=np.eye(4))
    model.partial_fit(IRIS[:20])
    assert_allclose(model.mean_prior_, IRIS.mean(axis=0))
    assert_allclose(model.covariance_prior_, np.eye(4))


def test_a_first_batch_of_fewer_rows_than_clusters_warns():
    message = "2 for n_components=3"
    with pytest.warns(UserWarning, match=message) as caught:
        SVIGaussianMixture(3).partial_fit(IRIS[:2])
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SVIGaussianMixture(3).partial_fit(IRIS[:20])
