"""The number and the shape of clusters, by evidence."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skboost import EvidenceSearch
from skboost.mixture import SVIGaussianMixture

CENTERS = 6.0 * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])


def clusters(seed, n=90):
    """Rows of three round clusters far apart."""
    rng = np.random.default_rng(seed)
    return CENTERS[rng.integers(3, size=n)] + rng.standard_normal((n, 2))


@pytest.mark.parametrize("seed", range(5))
def test_three_clusters_are_found(seed):
    search = EvidenceSearch(
        SVIGaussianMixture(n_init=3),
        {"n_components": [1, 2, 3, 4, 5]},
        n_repeats=1,
        random_state=seed,
    ).fit(clusters(seed))
    assert search.best_params_ == {"n_components": 3}
    assert search.results_["n_restarts"].tolist() == [3] * 5
    assert search.best_estimator_.elbo_ == search.best_elbo_
    assert search.predict(CENTERS).tolist() == [*dict.fromkeys(search.predict(CENTERS))]


@pytest.mark.slow
def test_restarts_in_one_fit_are_repeats_of_fits():
    # The same ten starts' worth of luck, by either road.
    X, grid = clusters(0), {"n_components": [3, 4]}
    inside = EvidenceSearch(SVIGaussianMixture(n_init=10), grid, n_repeats=1)
    outside = EvidenceSearch(SVIGaussianMixture(), grid, n_repeats=10)
    one, two = (s.set_params(random_state=0).fit(X).results_ for s in (inside, outside))
    assert one["n_restarts"].tolist() == two["n_restarts"].tolist() == [10, 10]
    np.testing.assert_allclose(one["elbo"], two["elbo"], atol=0.01)


def test_the_shape_of_round_clusters_is_found():
    X = clusters(1, n=300)
    grid = {"covariance_type": ["full", "diag", "spherical"], "n_components": [2, 3]}
    search = EvidenceSearch(
        SVIGaussianMixture(), grid, n_repeats=3, random_state=0, refit=False
    ).fit(X)
    assert search.best_params_ == {"covariance_type": "spherical", "n_components": 3}


def test_scaled_rows_are_not_compared_with_rows():
    pipeline = make_pipeline(StandardScaler(), SVIGaussianMixture(3))
    grid = {"standardscaler": [StandardScaler(), "passthrough"]}
    with pytest.raises(ValueError, match="preprocessing of a model of X"):
        EvidenceSearch(pipeline, grid).fit(clusters(0))
    grid = {"svigaussianmixture__n_components": [2, 3]}
    search = EvidenceSearch(pipeline, grid, n_repeats=2, random_state=0)
    search.fit(clusters(0))
    assert search.best_params_ == {"svigaussianmixture__n_components": 3}
    assert search.score_samples(clusters(1)).shape == (90,)


def test_missing_values_are_let_through():
    X = clusters(0)
    X[::9, 0] = np.nan
    search = EvidenceSearch(
        SVIGaussianMixture(covariance_type="diag"),
        {"n_components": [1, 3]},
        n_repeats=3,
        random_state=0,
    ).fit(X)
    assert search.best_params_ == {"n_components": 3}
