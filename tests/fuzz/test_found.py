"""What the fuzz found, each as a test of its own."""

import numpy as np
import pytest

from skboost import SVIGaussianMixture, SVIMatrixFactorization


def test_factors_beyond_floating_point_are_refused_and_the_old_fit_stays():
    X = np.array([[np.nan, 1.0], [2.0, 1.5], [1.0, np.nan]])
    model = SVIMatrixFactorization(
        1, max_iter=3, batch_size=2, dtype="float32", random_state=0
    ).fit(X)
    before = model.components_.copy()
    model.set_params(noise_scale=1e-12, learning_rate="constant")
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="floating point"):
        model.fit(1e12 * X)
    assert np.array_equal(model.components_, before)


@pytest.mark.parametrize("name", ["weights_init", "means_init", "precisions_init"])
@pytest.mark.parametrize("value", [{}, [{}], "ab"])
def test_starts_that_are_no_numbers_are_refused_by_name(name, value):
    X = np.random.default_rng(0).standard_normal((12, 2))
    with pytest.raises(ValueError, match=f"{name}.* must be an array"):
        SVIGaussianMixture(2, **{name: value}).fit(X)
