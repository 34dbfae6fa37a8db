"""Priors of coefficients of which some have one of their own, with a mean."""

import numpy as np

from skboost.targets._priors import NormalPrior, Prior
from skboost.targets._scale_priors import CommonScale


class ColumnPriors(Prior):
    """One prior for all `n` coordinates of a linear predictor, but ``own`` for some.

    These are pairs of an index and a `Prior`, in units of its scale.
    """

    def __init__(self, rest, own, n):
        self.rest, self.own, self.n = rest, own, n
        parts = rest, *(prior for _, prior in own)
        self.log_concave = all(prior.log_concave for prior in parts)

    def _parts(self, dim):
        """Priors, the coordinates that have each, and its mean there."""
        index = np.arange(dim) % self.n
        yield self.rest, ~np.isin(index, [column for column, _ in self.own]), 0.0
        for column, prior in self.own:
            mean = getattr(prior, "mean", 0.0) / prior.scale
            yield prior, index == column, mean

    def _standard(self, z):
        value, score = np.empty_like(z), np.empty_like(z)
        for prior, here, mean in self._parts(z.shape[-1]):
            found = prior._standard(z[..., here] - mean)
            value[..., here], score[..., here] = found
        return value, score

    def _standard_expected(self, mean, variance):
        found = np.empty((3, len(mean)))
        for prior, here, centre in self._parts(len(mean)):
            found[:, here] = prior._standard_expected(
                mean[here] - centre, variance[here]
            )
        return found


class ColumnScale(CommonScale):
    """`CommonScale` of the coordinates that have no prior of their own."""

    def __init__(self, columns, shared, n_shared, factor):
        super().__init__(columns.rest, shared, n_shared, factor)
        self.columns = columns

    def given(self, scale, s):
        """See `CommonScale`."""
        _, inner = super().given(scale, s)
        return self.columns, inner

    def _density_of_others(self, theta, scale, others):
        value, score = self.columns._standard(theta / scale)
        value, scale = value[:, others], scale[others]
        return value.sum(axis=1) - np.log(scale).sum(), score[:, others] / scale


def has_mean(prior):
    """Whether a prior is around another point than zero."""
    return isinstance(prior, NormalPrior) and np.any(np.not_equal(prior.mean, 0.0))
