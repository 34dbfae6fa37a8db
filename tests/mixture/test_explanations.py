"""Explanations of the rows, over numbers of clusters, and what they say together."""

import itertools
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gammaln, multigammaln
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale

from skboost.mixture import BoostedGaussianMixture

from .conftest import two_groups


@pytest.fixture(scope="module")
def auto():
    """Rows of two groups, and a fit that had to find their number."""
    X, labels = two_groups(80, apart=5.0)
    return X, labels, BoostedGaussianMixture("auto", random_state=0).fit(X)


def test_the_number_of_groups_is_found(auto):
    X, labels, fit = auto
    assert fit.n_components_ == len(fit.weights_) == 2
    assert fit.n_components_proba_[2] == max(fit.n_components_proba_.values()) > 0.5
    assert_allclose(sum(fit.n_components_proba_.values()), 1.0)
    found = fit.predict(X)
    assert max(np.mean(found == labels), np.mean(found != labels)) > 0.95


def test_explanations_have_shares(auto):
    _, _, fit = auto
    shares = [one.share for one in fit.explanations_]
    assert_allclose(sum(shares), 1.0)
    assert shares == sorted(shares, reverse=True)
    for one in fit.explanations_:
        assert one.means.shape == (one.n_components, 2)
        assert_allclose(one.weights.sum(), 1.0)


def test_rows_together_by_matrix_and_pairs(auto):
    X, labels, fit = auto
    matrix, pairs = fit.co_clustering(X[:20]), [[0, 1], [3, 17], [5, 4]]
    assert_allclose(np.diag(matrix), 1.0)
    assert_allclose(matrix, matrix.T)
    assert_allclose(
        fit.co_clustering(X[:20], pairs), matrix[tuple(np.transpose(pairs))]
    )
    same = labels[:20, None] == labels[:20]
    assert matrix[same].mean() > 0.9 > 0.1 > matrix[~same].mean()


def test_a_fit_in_little_time_goes_on_and_travels():
    X, _ = two_groups(40, apart=5.0)
    model = BoostedGaussianMixture("auto", max_time=1e-6, warm_start=True)
    model.fit(X)
    assert np.isfinite(model.score(X))
    number = model.n_components_
    assert model.set_params(max_time=None, max_iter=2).fit(X).n_components_ == number
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.co_clustering(X), model.co_clustering(X))


def test_starts_need_a_number():
    X, _ = two_groups(40, apart=5.0)
    with pytest.raises(ValueError, match="need a number of clusters"):
        BoostedGaussianMixture("auto", means_init=X[:2]).fit(X)


def _log_evidence_of_cluster(x, dof, rate, precision):
    """Rows (n,) of one normal-Wishart cluster about zero, in closed form."""
    n, total = len(x), x.sum()
    after = rate + x @ x - total**2 / (precision + n)
    value = multigammaln((dof + n) / 2, 1) - multigammaln(dof / 2, 1)
    value += 0.5 * dof * np.log(rate) - 0.5 * (dof + n) * np.log(after)
    return value + 0.5 * np.log(precision / (precision + n)) - 0.5 * n * np.log(np.pi)


def _log_evidence(x, n_components, alpha, *prior):
    """Sum over all assignments of rows to clusters."""
    logs = []
    for labels in itertools.product(range(n_components), repeat=len(x)):
        counts = np.bincount(labels, minlength=n_components)
        total = n_components * alpha
        value = gammaln(total) - gammaln(total + len(x))
        value += (gammaln(alpha + counts) - gammaln(alpha)).sum()
        for k in set(labels):
            value += _log_evidence_of_cluster(x[np.array(labels) == k], *prior)
        logs.append(value)
    return np.logaddexp.reduce(logs)


def test_numbers_of_clusters_by_sums_over_all_assignments():
    x = np.random.default_rng(5).standard_normal(8) * 0.3
    x[::2] += 3.0
    prior = {"mean_prior": [0.0], "mean_precision_prior": 0.2}
    prior |= {"weight_concentration_prior": 1.0, "degrees_of_freedom_prior": 3.0}
    prior["covariance_prior"] = [[0.5]]
    fit = BoostedGaussianMixture("auto", random_state=0, **prior).fit(x[:, None])
    exact = [_log_evidence(x, k, 1.0, 3.0, 0.5, 0.2) for k in (1, 2)]
    found = np.log(fit.n_components_proba_[2] / fit.n_components_proba_[1])
    assert found == pytest.approx(exact[1] - exact[0], abs=0.3)


def test_shares_of_a_default_fit_are_the_weights_of_its_components():
    """One component comes in an iteration, and none is weighed anew."""
    model = BoostedGaussianMixture(3, random_state=0).fit(scale(load_iris().data))
    assert model.n_iter_ > 1
    shares = [one.share for one in model.explanations_]
    assert shares == pytest.approx(sorted(model.posterior_.weights, reverse=True))
