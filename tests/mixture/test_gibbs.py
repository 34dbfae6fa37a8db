"""Gibbs chains: their stationary distribution, and what intervals hold."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale

from skboost.conjugate import (
    ConjugateTarget,
    GaussianMixtureModel,
    SharedPrior,
    gibbs_sweep,
)
from skboost.mixture import BoostedGaussianMixture

from .conftest import two_groups


def _target(covariance_type, n_rows=8, dim=2):
    one = {"full": np.eye(dim), "diag": np.ones(dim), "spherical": np.ones(())}
    least = dim - 1.0 if covariance_type == "full" else 0.0
    settings = {
        "clusters": "normal-wishart",
        "covariance_type": covariance_type,
        "alpha": np.full(2, 3.0),
        "center": np.zeros(dim),
        "dof": least + 10.0,
        "rate": 5.0 * one[covariance_type],
        "mean_precision": 1.0,
        "reg_covar": 0.0,
    }
    model = GaussianMixtureModel(**settings)
    shared = SharedPrior.of(settings, learn_tie=True)
    rows = model.rows(np.zeros((n_rows, dim)))
    return ConjugateTarget(model, rows, np.ones(n_rows), shared=shared)


def _from_prior(target, n, rng):
    """Draws of the parameters, one set for each."""
    shared, model = target.shared, target.model
    runs = shared.take(rng.integers(shared.n_runs, size=n))
    point = type("Point", (), {})
    scale_, tie = point(), point()
    scale_.mean = runs.scale.sample(1, rng)[0]
    tie.mean = rng.gamma(runs.tie.shape, 1.0 / runs.tie.rate)
    every = replace(runs, scale=scale_, tie=tie).model()
    draws = every.clusters.factors[0].sample(every.prior["clusters"], 1, rng)
    weights = rng.dirichlet(model.settings["alpha"], n)
    split = {k: v.reshape(n, 2, *v.shape[2:]) for k, v in draws.items()}
    return split | {"weights": weights}


def _numbers(target, draws):
    """Functions of draws that do not depend on the labels."""
    covariance = target.model.clusters.covariance
    matrices = covariance.whole_matrices(draws["precisions"], target.model.dim)
    logs = np.linalg.slogdet(matrices)[1]
    means = draws["means"]
    return np.column_stack(
        [
            logs.mean(axis=1),
            logs.std(axis=1),
            logs.std(axis=1) < 0.3,
            np.log1p(means**2).mean(axis=(1, 2)),
            np.tanh(means).mean(axis=(1, 2)),
            (draws["weights"] ** 2).sum(axis=1),
            np.log(np.einsum("ndd->n", matrices.mean(axis=1))),
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical"])
def test_gewekes_joint_distribution_test(covariance_type):
    """Parameters and rows drawn in turn have the distribution of the prior."""
    rng, target = np.random.default_rng(0), _target(covariance_type)
    covariance, dim = target.model.clusters.covariance, target.model.dim
    expected = _numbers(target, _from_prior(target, 20_000, rng))
    n_chains, n_steps = 12, 400
    averages = np.empty((n_chains, expected.shape[1]))
    for chain in range(n_chains):
        draws, values = _from_prior(target, 1, rng), []
        for _ in range(n_steps):
            labels = rng.choice(2, len(target.weight), p=draws["weights"][0])
            native = np.repeat(draws["precisions"], len(labels), axis=0)
            normal = rng.standard_normal((len(labels), 2, dim))
            noise = covariance.noise(native, normal)[np.arange(len(labels)), labels]
            X = draws["means"][0, labels] + noise
            target = replace(target, rows=target.model.rows(X))
            draws, _, _ = gibbs_sweep(target, draws, rng)
            values.append(_numbers(target, draws)[0])
        averages[chain] = np.mean(values, axis=0)
    # Every chain begins in its stationary distribution, and they are independent.
    error = averages.std(axis=0, ddof=1) / np.sqrt(n_chains)
    error = np.hypot(error, expected.std(axis=0) / np.sqrt(len(expected)))
    assert (np.abs(averages.mean(axis=0) - expected.mean(axis=0)) < 4.5 * error).all()


def test_intervals_are_wider_where_clusters_overlap(chains):
    X, gibbs = chains
    plain = BoostedGaussianMixture(2, random_state=0).fit(X)
    narrow, wide = (
        np.ptp(fit.posterior_.interval()["weights"]) for fit in (plain, gibbs)
    )
    assert wide > narrow
    assert gibbs.posterior_.n_components == 256
    assert_allclose(gibbs.means_, gibbs.posterior_.mean()["means"])
    assert np.isfinite(gibbs.score(X)) and set(gibbs.predict(X)) == {0, 1}


@pytest.mark.slow
def test_chains_are_where_the_other_posterior_is():
    X = scale(load_iris().data)
    one, other = (
        BoostedGaussianMixture(3, posterior=kind, random_state=0).fit(X)
        for kind in ("variational", "gibbs")
    )
    assert_allclose(other.weights_, one.weights_, atol=0.03)
    assert_allclose(other.means_, one.means_, atol=0.1)
    assert other.score(X) == pytest.approx(one.score(X), abs=0.05)


def test_rows_of_weight_two_stand_twice():
    X, _ = two_groups(12, apart=3.0)
    model = BoostedGaussianMixture(2, posterior="gibbs", random_state=0)
    once = model.fit(X, sample_weight=np.full(12, 2.0)).weights_
    assert_allclose(model.fit(np.vstack([X, X])).weights_, once)


@pytest.mark.parametrize(
    "params",
    [
        {"covariance_type": "tied"},
        {"temperature": 0.5},
        {"mean_prior_type": "independent"},
        {"weight_concentration_prior_type": "dirichlet_process"},
    ],
)
def test_what_chains_do_not_know_is_refused(params):
    X, _ = two_groups(20)
    with pytest.raises(ValueError, match="posterior='gibbs' needs"):
        BoostedGaussianMixture(2, posterior="gibbs", **params).fit(X)
