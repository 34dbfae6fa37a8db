"""Which way group effects are integrated out."""

import numpy as np

from skboost.hierarchy._crossed_normal import CrossedNormalMarginal
from skboost.hierarchy._laplace import LaplaceMarginal
from skboost.hierarchy._normal import NormalMarginal
from skboost.hierarchy._quadrature import QuadratureMarginal
from skboost.targets import DispersionPrior, FlatPrior, GLMTarget, NoisyGLMTarget


class UngroupedMarginal:
    """Log likelihood of a generalised linear model without groups.

    Parameters
    ----------
    rows : GroupedRows
    likelihood : Likelihood
    """

    cheap = exact = True

    def __init__(self, rows, likelihood):
        self.has_noise = likelihood.has_level
        settings = {
            "prior": FlatPrior(),
            "sample_weight": rows.weight,
            "offset": rows.offset,
            "fit_intercept": False,
        }
        if self.has_noise:
            flat = DispersionPrior(1.0, np.inf)
            self.target = NoisyGLMTarget(rows.X, rows.y, likelihood, flat, **settings)
        else:
            self.target = GLMTarget(rows.X, rows.y, likelihood, **settings)

    def value_and_score(self, beta, levels, *noise_level):
        """See `QuadratureMarginal.value_and_score`."""
        return self.target.value_and_score(np.column_stack([beta, *noise_level]))

    def effects(self, normals, beta, levels, *noise_level):
        """None: there are no groups."""
        return ()


def marginal_of(rows, likelihood=None):
    """The log likelihood of grouped rows, group effects integrated out.

    Parameters
    ----------
    rows : GroupedRows
    likelihood : Likelihood, default=None
        None is normal noise, whose scale is one parameter more.

    Returns
    -------
    object
        With ``has_noise``, ``value_and_score`` and ``effects``; see `NormalMarginal`.
    """
    n_factors = len(rows.factors)
    if likelihood is None:
        return (NormalMarginal if n_factors < 2 else CrossedNormalMarginal)(rows)
    if not n_factors:
        return UngroupedMarginal(rows, likelihood)
    # Nine nodes for each effect of a group: 729 of three.
    if n_factors == 1 and rows.factors[0].n_effects <= 2:
        return QuadratureMarginal(rows, likelihood)
    return LaplaceMarginal(rows, likelihood)
