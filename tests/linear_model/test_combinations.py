"""Every combination of strategies runs, or is refused in a sentence."""

import itertools

import numpy as np
import pytest

from skboost import BoostedBayesianLogisticRegression
from skboost.families import FAMILIES, as_family
from skboost.frank_wolfe import CORRECTIVE, STEP_SIZES
from skboost.objectives import OBJECTIVES

from .conftest import logistic_data

X, Y = logistic_data(12, [2.0, -1.0], seed=1)
Y3 = np.arange(12) % 3

SETTINGS = {
    "intercept_scale": 1.0,
    "prior_scale": 1.0,
    "max_iter": 3,
    "n_draws": 32,
    "tol": 0.0,
    "random_state": 0,
}

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::skboost.objectives.DegenerateComponentWarning"),
]


def fit(y, **settings):
    settings = SETTINGS | settings
    return BoostedBayesianLogisticRegression(**settings).fit(X, y)


def assert_sound(fitted):
    assert np.isfinite(fitted.posterior_.mean()).all()
    assert (fitted.posterior_.std() > 0).all()
    assert np.isfinite(fitted.elbo_)
    assert np.isfinite(fitted.predict_proba(X)).all()
    assert len(fitted.history_) == fitted.n_iter_ <= 3
    assert fitted.elbo_ > -30.0


def _everything():
    strategies = itertools.product(OBJECTIVES, [*STEP_SIZES, 0.2], CORRECTIVE)
    for strategy, family in itertools.product(strategies, FAMILIES):
        # Every value of every strategy runs with two families, all with line searches.
        if family in ("gaussian-full", "laplace") or strategy[1] == "line-search":
            yield *strategy, family


def refused(objective, family, step_size="line-search", corrective="none"):
    """Whether square roots of densities have no such thing."""
    return objective == "hellinger" and (
        step_size != "line-search"
        or corrective in ("away", "pairwise")
        or not as_family(family).root_products
    )


THREE = [
    (objective, "line-search", corrective, family, Y3)
    for objective, corrective, family in itertools.product(
        OBJECTIVES, CORRECTIVE, FAMILIES
    )
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "step_size", "corrective", "family", "y"),
    [*((*each, Y) for each in _everything()), *THREE],
)
def test_it_runs(objective, step_size, corrective, family, y):
    settings = {
        "objective": objective,
        "step_size": step_size,
        "corrective": corrective,
        "family": family,
        "max_iter": 3 if y is Y else 2,
    }
    if (step_size, family) == ("line-search", "gaussian-full"):
        settings["prior_scale"] = "learn"
    if refused(objective, family, step_size, corrective):
        with pytest.raises(ValueError, match="objective='hellinger' needs"):
            fit(y, **settings)
        return
    fitted = fit(y, **settings)
    assert_sound(fitted)
    assert fitted.predict_proba(X).shape == (12, len(set(y)))


@pytest.mark.parametrize("n_draws", [2, 3, 5])
def test_very_few_draws(n_draws):
    assert np.isfinite(fit(Y, n_draws=n_draws).posterior_.mean()).all()
