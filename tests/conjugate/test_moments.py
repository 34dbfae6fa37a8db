"""Closed-form moments of the clusters' parameters against draws."""

import numpy as np
import pytest

from skboost.conjugate import GaussianMixtureModel

from .conftest import ascended, blobs, make_model

N_DRAWS = 20_000


def close(values, exact):
    """Whether the mean of draws is the exact one, to five standard errors."""
    values = values.reshape(len(values), -1)
    error = np.abs(values.mean(axis=0) - np.ravel(exact))
    se = values.std(axis=0) / np.sqrt(len(values))
    # What is known is inverted twice, and back only to rounding.
    return np.all(error <= 5 * se + 1e-10)


def test_means_and_variances_are_those_of_draws(law_and_shape):
    # Rows enough that fourth moments of all parameters exist.
    X = blobs(n=120)
    model = make_model(*law_and_shape, X, n_components=2)
    natural, _ = ascended(model, model.rows(X), n_iter=30)
    draws = model.sample(natural, N_DRAWS, np.random.default_rng(1))
    shape = model.clusters.covariance
    inverse = np.linalg.inv(shape.matrices(draws["precisions"]))
    draws["covariances"] = shape.native(inverse)
    for name, (mean, spread) in model.moments(natural).items():
        values = draws[name]
        assert close(values, mean), name
        away = values - mean
        if name == "means":
            products = away[..., :, None] * away[..., None, :]
        elif name == "weights":
            products = away[:, :, None] * away[:, None, :]
        else:
            products = away**2
        assert products.shape[1:] == spread.shape
        assert close(products, spread), name


@pytest.mark.parametrize("shape", ["full", "tied", "diag", "spherical"])
def test_moments_that_do_not_exist_are_inf_or_nan(shape):
    rate = {"full": np.eye(2), "tied": np.eye(2), "diag": np.ones(2)}.get(shape, 1.0)

    def moments(dof):
        model = GaussianMixtureModel.make(
            "normal-wishart",
            shape,
            np.ones(1),
            np.zeros(2),
            mean_precision=1.0,
            dof=dof,
            rate=rate,
        )
        return model.moments(model.prior)

    matrix = shape in ("full", "tied")
    # Degrees of freedom of the means' Student-t distribution: 1 less, or per feature.
    least = {"full": 1.0, "tied": 1.0, "diag": 0.0, "spherical": -0.5}[shape]
    low, middle, high = (moments(least + extra) for extra in (0.9, 1.8, 8.0))
    if shape != "spherical":
        assert np.isnan(low["means"][0]).all()
    assert np.isfinite(middle["means"][0]).all()
    if shape != "spherical":
        variances = np.diagonal(middle["means"][1], axis1=1, axis2=2)
        assert np.isinf(variances).all()
        assert not np.isfinite(middle["covariances"][0]).any()
    if matrix:
        beside = middle["covariances"][0][..., 0, 1]
        assert np.isnan(beside).all()
    assert all(np.isfinite(value).all() for pair in high.values() for value in pair)
