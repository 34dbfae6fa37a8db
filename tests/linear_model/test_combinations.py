"""Every combination of strategies runs, or is refused in a sentence."""

import itertools

import numpy as np
import pytest

from skboost import BoostedBayesianLogisticRegression
from skboost.families import FAMILIES, as_family
from skboost.frank_wolfe import CORRECTIVE, STEP_SIZES
from skboost.objectives import OBJECTIVES
from skboost.strategies import GreedySearch

from .conftest import logistic_data

X, Y = logistic_data(12, [2.0, -1.0], seed=1)

SETTINGS = {
    "intercept_scale": 1.0,
    "prior_scale": 1.0,
    "max_iter": 3,
    "search": GreedySearch(32),
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


def refused(objective, family, step_size="line-search", corrective="none"):
    """Whether square roots of densities have no such thing."""
    return objective == "hellinger" and (
        step_size != "line-search"
        or corrective in ("away", "pairwise")
        or not as_family(family).root_products
    )


def pairs():
    """Few combinations that hold every pair of values of two strategies."""
    values = OBJECTIVES, [*STEP_SIZES, 0.2], CORRECTIVE, FAMILIES, [2, 3]

    def of(one):
        return set(itertools.combinations(enumerate(one), 2))

    every = [*itertools.product(*values)]
    left = set().union(*map(of, every))
    while left:
        best = max(every, key=lambda one: len(of(one) & left))
        # Refusals run nothing: what else they hold is left to others.
        left -= (
            of(best)
            if not refused(best[0], best[3], *best[1:3])
            else {pair for pair in of(best) if pair[0] == (0, "hellinger")}
        )
        yield best
        every.remove(best)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "step_size", "corrective", "family", "n_classes"), [*pairs()]
)
def test_it_runs(objective, step_size, corrective, family, n_classes):
    y = Y if n_classes == 2 else np.arange(12) % 3
    settings = {
        "objective": objective,
        "step_size": step_size,
        "corrective": corrective,
        "family": family,
        "max_iter": 5 - n_classes,
    }
    if (step_size, family) == ("line-search", "gaussian-full"):
        settings["prior_scale"] = "learn"
    if refused(objective, family, step_size, corrective):
        with pytest.raises(ValueError, match="objective='hellinger' needs"):
            fit(y, **settings)
        return
    fitted = fit(y, **settings)
    assert_sound(fitted)
    assert fitted.predict_proba(X).shape == (12, n_classes)


@pytest.mark.parametrize("n_draws", [2, 3, 5])
def test_very_few_draws(n_draws):
    assert np.isfinite(fit(Y, search=GreedySearch(n_draws)).posterior_.mean()).all()
