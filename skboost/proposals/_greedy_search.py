"""What the default search for components is told, and what every search is."""

from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator


class GreedySearch(BaseEstimator):
    """The default search for components, for ``search=``, with other settings.

    ``search="greedy"`` is this object by default, right for all but studies.

    Parameters
    ----------
    n_draws : int, default=512
        Monte Carlo draws kept per searched component; four times as many for 22 to 43
        coefficients.
    refine : bool, default=True
        Re-optimise old components after a searched one; the papers leave them.
    stopping : {"gain", "gap"}, default="gain"
        Of the gain in ELBO: stops when gain + 2 standard errors <= 2 `tol`, since the
        next one is usually half as large. Of the duality gap: stops when gap + 2
        standard errors <= `tol`, unless the candidate's own gap is clearly negative.
        Both wait for all nodes.
    max_components : int, default=None
        Bound on the mixture's size; the lightest components beyond it are dropped.

    Examples
    --------
    >>> import autograd.numpy as np
    >>> from skboost import boost_posterior
    >>> from skboost.strategies import GreedySearch
    >>> def log_density(theta):
    ...     return np.logaddexp(-2 * (theta[:, 0] + 2) ** 2, -((theta[:, 0] - 2) ** 2))
    >>> few = GreedySearch(max_components=2)
    >>> result = boost_posterior(log_density, dim=1, search=few, random_state=0)
    >>> result.posterior.n_components
    2
    """

    def __init__(self, n_draws=512, refine=True, stopping="gain", max_components=None):
        self.n_draws = n_draws
        self.refine = refine
        self.stopping = stopping
        self.max_components = max_components

    def settings(self):
        """What a run is told besides, by name."""
        names = ("n_draws", "refine", "stopping", "max_components")
        return {name: getattr(self, name) for name in names}

    def check(self, family):
        """Refuse hyperparameters that mean nothing by a ValueError that names them."""
        self._require_whole("n_draws", least=2)
        if self.max_components is not None:
            self._require_whole("max_components")
        known = isinstance(self.refine, bool | np.bool_)
        self._require(known, "refine", "True or False")
        self._require(self.stopping in ("gain", "gap"), "stopping", "'gain' or 'gap'")

    def _require_whole(self, name, least=1):
        value = getattr(self, name)
        valid = isinstance(value, Integral) and value >= least
        self._require(valid, name, f"a whole number from {least} on")

    def _require(self, valid, name, required):
        if not valid:
            raise ValueError(
                f"{name} must be {required}; got {getattr(self, name)!r}. Change "
                f"{name} of {type(self).__name__}."
            )
