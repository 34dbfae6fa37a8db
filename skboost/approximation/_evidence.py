"""The evidence of a target, from draws of a mixture and of heavy-tailed copies of it.

A mixture fitted by KL(q || p) is narrower than its target. Its own draws never see the
tails that it lacks, their average weight is too small, and the spread of the weights
does not say so. A third of the draws comes from copies of its components with two
degrees of freedom, and all are weighed by the density of both kinds together: that is
defensive importance sampling (Hesterberg 1995). What the copies cost in precision is
taken off by a control variate: the average of q over the density of all draws is known
to be one (Owen and Zhou 2000). Where q is exact, the error is zero.
"""

from typing import NamedTuple

import numpy as np

from skboost._math import mean_and_se
from skboost.approximation._diagnostics import FreshDraws, psis
from skboost.approximation._mixture import Mixture
from skboost.approximation._slopes import without_noise
from skboost.families import (
    Component,
    DiagonalGaussian,
    FullGaussian,
    StudentT,
    VariationalFamily,
)

# Draws of the copies for one of the mixture. On Student-t densities k-hat rose above
# one where they were a fifth of all, and not where they were a third.
TAIL_DRAWS = 0.5
# Degrees of freedom of the copies.
_DF = 2.0
# Pareto shapes above which weights have no variance, and averages of them are not
# reliable (Vehtari et al. 2024). Weights that hardly vary have any shape, but none of
# them carries so much of the sum.
_NO_VARIANCE, _UNRELIABLE, _MUCH = 0.5, 0.7, 0.01
# Nats that are none.
_ROUNDING = 1e-9


class LogEvidence(NamedTuple):
    """Log evidence, its error, nats, and the Pareto shape of the weights.

    `heaviest` is the largest weight, `zero` the weight of copies' draws without
    density.
    """

    value: float
    se: float
    khat: float
    heaviest: float = 0.0
    zero: float = 0.0

    @property
    def reliable(self):
        """Whether the value is near where no mass is beyond the draws."""
        return self._is_within(_UNRELIABLE)

    def _is_within(self, khat):
        return self.khat <= khat or self.heaviest <= _MUCH

    def beyond(self, seen):
        """How much larger it is than what draws of the mixture alone say, nats."""
        more = self.value - seen
        return more if more > _ROUNDING else 0.0

    @property
    def known_se(self):
        """The standard error; inf where the weights have no variance."""
        return self.se if self._is_within(_NO_VARIANCE) else np.inf


def has_tails(mixture):
    """Whether the components are of families that `heavy_tailed` knows."""
    return all(isinstance(c.family, VariationalFamily) for c in mixture.components)


def heavy_tailed(mixture):
    """A mixture of Student-t copies of the components, with two degrees of freedom."""
    return Mixture(tuple(map(_heavy_tailed, mixture.components)), mixture.weights)


def _heavy_tailed(component):
    shape = getattr(component.family, "gaussian", component.family)
    if isinstance(shape, FullGaussian | DiagonalGaussian):
        # Their parameters are those of the scale matrix.
        name = "full" if shape.full_covariance else "diag"
        return Component(StudentT(name, _DF), component.params)
    family, variances = StudentT("diag", _DF), component.scale() ** 2
    return Component(family, family.from_moments(component.location(), variances))


def evidence_of(target, fresh, rng):
    """`LogEvidence` from fresh draws of a mixture and half as many of its copies."""
    n = int(TAIL_DRAWS * len(fresh.theta))
    tails = FreshDraws.of(target, heavy_tailed(fresh.mixture), n, rng, exact=False)
    theta = np.concatenate([fresh.theta, tails.theta])
    log_p = np.concatenate([fresh.log_joint, tails.log_joint])
    log_q = [one.mixture.log_density(theta) for one in (fresh, tails)]
    known = target, theta, log_p, np.logaddexp(*log_q)
    log_p = without_noise(*known, fresh.mixture.heaviest)
    found = log_evidence(log_p, *log_q, (fresh.row_weights, tails.row_weights))
    return found._replace(zero=tails.outside)


def log_evidence(log_joint, log_q, log_tails, row_weights):
    """`LogEvidence` from draws of q and, after them, of heavy-tailed copies.

    All arrays are (n,); the weights of the rows are a pair of arrays, each with sum
    one.
    """
    counts = np.array([len(rows) for rows in row_weights])
    share = counts / counts.sum()
    rows = np.concatenate([s * w for s, w in zip(share, row_weights, strict=True)])
    log_r = np.logaddexp(np.log(share[0]) + log_q, np.log(share[1]) + log_tails)
    log_w = log_joint - log_r
    top = log_w.max()
    if not np.isfinite(top):
        return LogEvidence(-np.inf, np.inf, np.inf, 1.0)
    khat = psis(log_w + np.log(len(rows) * rows)).khat
    w, control = np.exp(log_w - top), np.exp(log_q - log_r) - 1.0
    centred = control - rows @ control
    square = rows @ centred**2
    slope = (rows * centred) @ w / square if square > 0.0 else 0.0
    mean, se = mean_and_se(w - slope * control, rows)
    # Of a few draws that carry all, the control can leave nothing.
    if not mean > 0.0:
        mean, se = mean_and_se(w, rows)
    heaviest = float((rows * w).max() / (rows @ w))
    return LogEvidence(float(top + np.log(mean)), float(se / mean), khat, heaviest)
