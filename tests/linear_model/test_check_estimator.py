"""scikit-learn's own checks on the default-constructed estimator, without excuses."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from skboost import BoostedBayesianLogisticRegression

# It asks for a thousand iterations on a posterior that dozens of components improve.
SLOW = {"check_class_weight_classifiers"}


def name_of(check):
    return getattr(check, "func", check).__name__


def _checks():
    estimator = BoostedBayesianLogisticRegression()
    for number, (instance, check) in enumerate(estimator_checks_generator(estimator)):
        marks = [pytest.mark.slow] if name_of(check) in SLOW else []
        yield pytest.param(
            instance, check, marks=marks, id=f"{number}-{name_of(check)}"
        )


@pytest.mark.parametrize(("estimator", "check"), list(_checks()))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_check_estimator(estimator, check):
    check(estimator)


def test_no_check_is_expected_to_fail():
    tags = BoostedBayesianLogisticRegression().__sklearn_tags__()
    assert not tags._skip_test
    assert not tags.non_deterministic
    assert not tags.classifier_tags.poor_score
    assert tags.input_tags.sparse
    assert tags.classifier_tags.multi_class
