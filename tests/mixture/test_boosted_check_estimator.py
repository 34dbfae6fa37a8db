"""scikit-learn's own checks on the default-constructed estimator, without excuses."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from skboost.mixture import BoostedGaussianMixture


def _checks():
    estimator = BoostedGaussianMixture()
    for number, (instance, check) in enumerate(estimator_checks_generator(estimator)):
        name = getattr(check, "func", check).__name__
        yield pytest.param(instance, check, id=f"{number}-{name}")


@pytest.mark.parametrize(("estimator", "check"), list(_checks()))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_check_estimator(estimator, check):
    check(estimator)


def test_no_check_is_expected_to_fail():
    tags = BoostedGaussianMixture().__sklearn_tags__()
    assert not tags._skip_test
    assert not tags.non_deterministic
    assert tags.input_tags.allow_nan


def test_missing_values_are_allowed_where_they_can_be_integrated_out():
    allowed = {
        name: BoostedGaussianMixture(covariance_type=name)
        .__sklearn_tags__()
        .input_tags.allow_nan
        for name in ("full", "tied", "diag", "spherical")
    }
    assert allowed == {"full": True, "tied": False, "diag": True, "spherical": False}
