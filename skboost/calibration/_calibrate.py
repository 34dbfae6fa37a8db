"""Corrections by name, and how one is chosen and tried."""

from typing import NamedTuple

import numpy as np

from skboost.calibration._affine import AffineMap
from skboost.calibration._heavy_tailed import HeavyTails
from skboost.calibration._problem import (
    Calibration,
    Declined,
    Problem,
    first_failure,
)


class Method(NamedTuple):
    """Corrections where importance weights serve, and where they do not."""

    weighted: object
    by_chains: object

    def choose(self, pilot, dim):
        """The correction for what the pilot saw."""
        # Few effective draws for each dimension are no guide, and in many dimensions
        # scale matrices of weighted draws cost too much.
        few = pilot.effective_sample_size < 5 * dim
        return self.by_chains if few or dim > 20 else self.weighted


# By the names that users give: guarded, and as strong as it comes.
CALIBRATIONS = {
    "auto": Method(HeavyTails(guarded=True), AffineMap(guarded=True)),
    "moments": Method(HeavyTails(guarded=False), AffineMap(guarded=False)),
}


def calibrate(
    target,
    mixture,
    method,
    seed,
    *,
    exact=False,
    tol=1e-2,
    max_components=None,
    budget=None,
    by_chains=False,
):
    """A mixture with better moments and tails, or the same one.

    Parameters
    ----------
    target : Target
        With a gradient.
    mixture : Mixture
    method : str
        One of `CALIBRATIONS`.
    seed : int
    exact : bool, default=False
        Whether the target's closed Gaussian expectations are used.
    tol : float, default=1e-2
        Nats below which nothing is corrected.
    max_components : int, default=None
        Of the corrected mixture; None is any number.
    budget : Budget, default=None
        That ends long computations between evaluations; `target` may be watched by
        it, too.
    by_chains : bool, default=False
        Whether it is the correction by chains even where importance weights serve.

    Returns
    -------
    mixture : Mixture
        The one that came, where the correction was declined.
    Calibration

    Raises
    ------
    BudgetSpent
        Where the budget ends.
    """
    tolerant = target.tolerant()
    problem = Problem(tolerant, mixture, exact, seed, max_components, budget)
    try:
        pilot = problem.pilot()
        if not np.isfinite(pilot.remaining.value):
            reason = "the density is zero or failed at every draw."
            return mixture, Calibration(reason=reason + first_failure(tolerant))
        if pilot.remaining.spread < tol:
            reason = f"draws see less than {tol:g} nats that are left to correct."
            return mixture, Calibration(reason=reason)
        known = CALIBRATIONS[method]
        chosen = known.by_chains if by_chains else known.choose(pilot, mixture.dim)
        return chosen.corrected(problem, pilot)
    except Declined as declined:
        return mixture, declined.calibration
    except (ValueError, FloatingPointError) as error:
        # Singular matrices, and moments that no member of a family has.
        return mixture, Calibration(reason=f"its numbers failed ({error}).")
