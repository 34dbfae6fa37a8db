"""The boosted mixture in the company of scikit-learn's tools, and bad input."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris
from sklearn.metrics import adjusted_rand_score

from skboost import BoostedGaussianMixture
from skboost.conjugate import sweeps

from .conftest import each_odd

# --- scikit-learn's names


def test_fitted_priors_and_bounds_have_scikit_learns_names(fitted, groups):
    X, _ = groups
    assert fitted.lower_bound_ == fitted.elbo_
    assert len(fitted.lower_bounds_) == fitted.n_iter_
    assert_allclose(fitted.mean_prior_, X.mean(axis=0))
    assert fitted.covariance_prior_.shape == (2, 2)
    assert fitted.weight_concentration_prior_ == 3.0
    assert fitted.degrees_of_freedom_prior_ == 2 + 9
    root = fitted.precisions_cholesky_
    assert_allclose(root @ np.swapaxes(root, -1, -2), fitted.precisions_)
    total = fitted.score_samples(X).sum()
    assert fitted.aic(X) == pytest.approx(2 * 11 - 2 * total)
    assert fitted.bic(X) == pytest.approx(11 * np.log(len(X)) - 2 * total)


def test_the_first_start_is_the_given_one(groups, model, monkeypatch):
    X, labels = groups
    means = np.array([X[labels == k].mean(axis=0) for k in (0, 1)])
    starts = []

    def spy(prior, naturals, *rest):
        starts.append(prior.take([0]).model().means(naturals[0]))
        return sweeps(prior, naturals, *rest)

    monkeypatch.setattr("skboost.conjugate.gaussian_mixture._search.sweeps", spy)
    for order in ([0, 1], [1, 0]):
        starts.clear()
        model(max_iter=1, means_init=means[order]).fit(X)
        assert_allclose(starts[0], means[order], atol=0.5)
    with pytest.raises(ValueError, match="means_init must be finite and of shape"):
        model(means_init=means[:1]).fit(X)


def test_verbose_writes_every_iteration(groups, model, capsys):
    fit = model(verbose=2).fit(groups[0])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Boosting."
    assert len(lines) == 2 + fit.n_iter_
    assert "iteration 1" in lines[1] and "nats" in lines[1]


def test_the_settings_that_the_guide_advises_find_the_species():
    X, species = load_iris(return_X_y=True)
    prior = {"covariance_type": "tied", "mean_precision_prior": 0.01}
    model = BoostedGaussianMixture(3, max_iter=1, random_state=0, **prior).fit(X)
    assert adjusted_rand_score(species, model.predict(X)) > 0.85


# --- bad input and odd data


@pytest.mark.slow
@pytest.mark.parametrize("covariance_type", ["full", "spherical"])
@each_odd
def test_odd_data_fit(X, covariance_type, model):
    fit = model(n_components=5, covariance_type=covariance_type)
    if len(X) == 1:
        with pytest.raises(ValueError, match="a minimum of 2 is required"):
            fit.fit(X)
        return
    fit.fit(X)
    assert np.isfinite([fit.elbo_, fit.score(X)]).all()
    assert np.isfinite(fit.means_).all()
    assert_allclose(fit.weights_.sum(), 1.0)
    assert_allclose(fit.predict_proba(X).sum(axis=1), 1.0)


def test_the_unit_of_the_data_only_shifts_the_elbo(groups, model):
    """Default priors follow the data: rows in other units are the same rows."""
    X, _ = groups
    one, other = model(max_iter=1).fit(X), model(max_iter=1).fit(1000.0 * X + 5.0)
    shift = X.size * np.log(1000.0)
    assert_allclose(other.elbo_ + shift, one.elbo_, atol=0.2)
