"""The installed scikit-learn's tests of `BayesianGaussianMixture`, class swapped."""

from functools import partial
from types import FunctionType

import pytest
from sklearn.mixture.tests import test_bayesian_mixture as theirs

from skboost.mixture import SVIGaussianMixture

EXCUSED = {
    "test_compare_covar_type": (
        "calls private methods, and counts the prior of tied covariances n_components "
        "times, where it counts once here"
    )
}
SLOW = ("test_monotonic_likelihood",)


class BayesianGaussianMixture(SVIGaussianMixture):
    """By their name, which two of the tests look for in messages."""


def cases(name):
    """One case for each set of arguments of a test."""
    function = getattr(theirs, name)
    marks = getattr(function, "pytestmark", [])
    own = [mark for mark in marks if mark.name != "parametrize"]
    if name in EXCUSED:
        own.append(pytest.mark.xfail(reason=EXCUSED[name], strict=True))
    if name in SLOW:
        own.append(pytest.mark.slow)
    arguments = [{}]
    for mark in marks:
        if mark.name == "parametrize":
            names = [word.strip() for word in mark.args[0].split(",")]
            arguments = [
                before | dict(zip(names, values, strict=True))
                for before in arguments
                for values in mark.args[1]
            ]
    for given in arguments:
        label = "-".join([name, *map(str, given.values())])
        # The decorators of a test do nothing here: their marks are passed on.
        yield pytest.param(name, given, id=label, marks=own)


NAMES = [
    name
    for name, value in vars(theirs).items()
    if name.startswith("test_") and isinstance(value, FunctionType)
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments"), [case for name in NAMES for case in cases(name)]
)
def test_of_scikit_learn(name, arguments, monkeypatch):
    swapped = partial(BayesianGaussianMixture, covariance_prior=None)
    monkeypatch.setattr(theirs, "BayesianGaussianMixture", swapped)
    getattr(theirs, name)(**arguments)


def test_at_most_one_is_excused_and_all_are_known():
    assert len(EXCUSED) <= 1
    assert set(EXCUSED) | set(SLOW) <= set(NAMES)
    assert len(NAMES) >= 14
