"""Refinement: old components move after a new one."""

import numpy as np

from skboost.boosting._solver import SMALLEST_TOL, ascend
from skboost.objectives import JointELBO
from skboost.posterior import Mixture

_MAX_ITER = 30


def refine(target, mixture, base_draws, exact, tol):
    """All components and weights moved together towards a higher ELBO.

    The greedy step's own problem with every component moving and nothing fixed, in
    place of a sweep over components one by one.

    Parameters
    ----------
    target : Target
    mixture : Mixture
    base_draws : list of ndarray
        Fixed base draws of every component.
    exact : bool
    tol : float
        Nats that matter to the run; refinement ends where an iteration gains a
        hundredth. The next refinement goes on from there.

    Returns
    -------
    Mixture
    """
    families = [family for family, _ in mixture.components]
    problem = JointELBO(
        target, list(mixture.components), base_draws, mixture.weights, None, exact
    )
    x, _ = ascend(problem, max_iter=_MAX_ITER, tol=max(1e-2 * tol, SMALLEST_TOL))
    params, shares = problem.unpack(x)
    return Mixture(tuple(zip(families, params, strict=True)), np.asarray(shares))
