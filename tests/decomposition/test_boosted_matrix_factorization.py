"""Boosted matrix factorisation: explanations, averages, and scikit-learn's company."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from skboost import BoostedMatrixFactorization, SVIMatrixFactorization
from skboost.conjugate import Entries, FactorTarget, ObservedEntries
from skboost.decomposition import MatrixFactorizationPosterior
from skboost.model_selection import EvidenceSearch
from skboost.strategies import StochasticSearch

from ..kinds import over

KNOWN = {"noise_scale": 0.3, "prior_scale": 1.0}


def low_rank(shape=(40, 15), rank=2, noise=0.3, seed=0, share=0.6):
    """A matrix of low rank with gaps, and what is hidden in them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    X += noise * rng.standard_normal(shape)
    hidden = rng.random(shape) > share
    rows, columns = np.nonzero(hidden)
    return np.where(hidden, np.nan, X), (rows, columns, X[rows, columns])


def two_groups(n=6, seed=0):
    """Rows and columns of two groups, and nothing observed between them.

    The factors of one group may change their signs while those of the other keep
    theirs: two explanations, which differ in what they say between the groups.
    """
    rng = np.random.default_rng(seed)
    X = np.outer(rng.uniform(1, 2, 2 * n), rng.uniform(1, 2, 2 * n))
    X += 0.1 * rng.standard_normal(X.shape)
    X[:n, n:] = X[n:, :n] = np.nan
    return X


def target_of(fitted, X):
    """The log joint density of a fit without biases."""
    return FactorTarget(fitted.posterior_.model, ObservedEntries(Entries.of(X)))


def model(**params):
    defaults = {"n_components": 2, "max_iter": 3, "random_state": 0}
    return BoostedMatrixFactorization(**(defaults | params))


# --- explanations of the data


@pytest.mark.slow
def test_two_explanations_have_one_half_each():
    X = two_groups()
    fitted = BoostedMatrixFactorization(
        1, n_restarts=6, tol=1e-3, random_state=0, **KNOWN
    ).fit(X)
    weights = fitted.posterior_.weights
    pieces = fitted._predictive.pieces()
    signs = [np.sign(p.rows.mean[0] * p.columns.mean[9])[0] for p in pieces]
    assert_allclose(weights @ np.equal(signs, 1.0), 0.5, atol=0.03)
    # The second explanation doubles the evidence.
    assert_allclose(fitted.elbo_path_[-1] - fitted.elbo_path_[0], np.log(2), atol=0.1)
    # Within the groups they agree; between them one says plus and one says minus.
    mean, std = fitted.predict_entries([0, 0], [0, 9], return_std=True)
    assert abs(mean[0] - X[0, 0]) < 3 * std[0] and std[0] < 0.5
    assert abs(mean[1]) < 0.2 and std[1] > 1.0


@pytest.mark.slow
@pytest.mark.parametrize("biases", [False, True])
def test_boosted_is_no_worse_than_single(biases):
    X, (rows, columns, values) = low_rank()
    boosted = model(biases=biases).fit(X)
    single = SVIMatrixFactorization(
        2, biases=biases, random_state=0, tol=1e-9, max_iter=2000
    ).fit(X)
    assert boosted.elbo_ > single.elbo_ - 0.1
    errors = [
        np.mean((m.predict_entries(rows, columns) - values) ** 2)
        for m in (boosted, single)
    ]
    assert errors[0] < 1.05 * errors[1]


def test_the_elbo_is_that_of_fresh_draws():
    X, _ = low_rank((8, 6))
    fitted = model().fit(X)
    posterior, target = fitted.posterior_, target_of(fitted, X)
    theta = posterior.mixture.sample(1000, np.random.default_rng(0))
    ratio = target.log_density(theta) - posterior.mixture.log_density(theta)
    error = np.hypot(ratio.std(ddof=1) / np.sqrt(len(ratio)), fitted.elbo_se_)
    assert abs(ratio.mean() - fitted.elbo_) < 4.5 * error


@pytest.mark.slow
def test_steps_that_average_keep_the_last_mixture():
    X = two_groups()
    fitted = BoostedMatrixFactorization(
        1, step_size="predefined", corrective="none", max_iter=4, tol=0.0,
        random_state=0, **KNOWN,
    ).fit(X)  # fmt: skip
    assert fitted.n_iter_ == fitted.posterior_.n_components == 4
    # gamma_t = 2 / (t + 2), t = 1, 2, 3.
    weights = np.ones(1)
    for gamma in 2.0 / (np.arange(1, 4) + 2.0):
        weights = np.append((1.0 - gamma) * weights, gamma)
    assert_allclose(fitted.posterior_.weights, weights)


def test_auto_has_a_tolerance_where_a_limit_ends_the_run():
    fitted = BoostedMatrixFactorization(
        1, step_size="predefined", corrective="none", max_iter=2, tol="auto",
        random_state=0, **KNOWN,
    ).fit(two_groups(4))  # fmt: skip
    assert fitted.n_iter_ == 2 and not fitted.converged_


# --- predictions


@pytest.fixture(scope="module")
def several():
    return BoostedMatrixFactorization(
        1, step_size="predefined", corrective="none", random_state=0, **KNOWN
    ).fit(two_groups(4))


def test_predictions_are_those_of_the_mixture(several):
    draws = several.posterior_.sample(20_000, random_state=1)
    entries = np.einsum("nik,njk->nij", draws["row_factors"], draws["column_factors"])
    mean, std = several.reconstruct(return_std=True)
    error = entries.std(axis=0) / np.sqrt(len(entries))
    assert (np.abs(entries.mean(axis=0) - mean) < 4.5 * error + 1e-12).all()
    assert_allclose(np.sqrt(entries.var(axis=0) + 0.09), std, rtol=0.05)


def test_densities_of_entries_are_mixtures_of_normals(several):
    posterior, expected = several.posterior_, 0.0
    model = posterior.model
    for own, weight in zip(posterior.components, posterior.weights, strict=True):
        rows, columns = (s.stack(own[s.name]) for s in (model.rows, model.columns))
        u, v = rows.mean[1, 0], columns.mean[2, 0]
        a, b = rows.covariance[1, 0, 0], columns.covariance[2, 0, 0]
        variance = u**2 * b + v**2 * a + a * b + model.noise.variance(own)
        expected += weight * stats.norm(u * v, np.sqrt(variance)).pdf(0.7)
    found = several.log_density_entries([1], [2], [0.7])
    assert_allclose(found, np.log(expected), rtol=1e-10)
    with pytest.raises(ValueError, match="values must have shape"):
        several.log_density_entries([1], [2], [0.7, 0.8])


def test_factors_are_those_of_the_heaviest_component(several):
    assert np.ptp(several.posterior_.weights) > 0.1
    factors = several.transform(two_groups(4))
    assert_allclose(factors, several.row_factors_, atol=5e-3)
    (heaviest,) = several.posterior_.truncate(1).components
    columns = several.posterior_.model.columns.stack(heaviest["columns"]).mean
    assert_allclose(several.inverse_transform(factors), factors @ columns.T)


# --- the posterior


@over("proposal", ["coordinate_ascent", "residual"], slow=["residual"])
def test_the_posterior_survives_the_disk(tmp_path, proposal):
    X, _ = low_rank((8, 6))
    search = StochasticSearch(30, n_step_draws=None)
    few = search if proposal == "residual" else None
    fitted = model(biases=True, proposal=proposal, search=few, max_iter=2).fit(X)
    posterior = fitted.posterior_
    draws = posterior.sample(5, random_state=0)
    assert draws["row_factors"].shape == (5, 8, 3)
    assert draws["noise_scale"].shape == (5,) and (draws["noise_scale"] > 0).all()
    assert draws["column_scales"].shape == (5, 3)
    path = tmp_path / "posterior.npz"
    posterior.save(path)
    again = MatrixFactorizationPosterior.load(path)
    assert_allclose(again.log_density(draws), posterior.log_density(draws))
    assert repr(again) == repr(posterior)
    with pytest.raises(ValueError, match=r"draws\['noise_scale'\] must have shape"):
        posterior.log_density({k: v for k, v in draws.items() if k != "noise_scale"})
    with pytest.raises(ValueError, match="n must be a positive integer"):
        posterior.sample(0)
    with pytest.raises(ValueError):
        other = tmp_path / "other.npz"
        np.savez(other, a=np.zeros(2))
        MatrixFactorizationPosterior.load(other)


# --- data of other kinds


def test_empty_rows_and_a_rank_above_the_matrix():
    X, _ = low_rank((6, 4))
    X[2], X[:, 1] = np.nan, np.nan
    fitted = model(n_components=6, biases=True, max_iter=2).fit(X)
    mean, std = fitted.reconstruct(return_std=True)
    assert np.isfinite(mean).all() and np.isfinite(std).all()
    assert std[2].mean() > std[[0, 1, 3, 4, 5]].mean()


# --- scikit-learn's company


@pytest.mark.slow
def test_the_rank_is_found_by_evidence_and_by_held_out_entries():
    X, _ = low_rank((60, 15), rank=2, share=0.8)
    one = model(max_iter=1, n_restarts=4, **KNOWN)
    search = EvidenceSearch(one, {"n_components": [1, 2, 4]}).fit(X)
    assert search.best_params_ == {"n_components": 2}
    hidden = np.random.default_rng(0).random(X.shape) < 0.1
    train = np.where(hidden, np.nan, X)
    held = np.nonzero(hidden & ~np.isnan(X))
    density = [
        one.set_params(n_components=r)
        .fit(train)
        .log_density_entries(*held, X[held])
        .mean()
        for r in (1, 2)
    ]
    assert density[1] > density[0]
