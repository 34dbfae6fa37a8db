"""Whether a warp is worth having: by draws that it was not fitted to."""

import numpy as np
from scipy.special import gammaln

from skboost._math import LOG_2PI, mean_and_se
from skboost.approximation import Estimate
from skboost.families import Gaussian

# Degrees of freedom of the draws that look at the tails.
_TAIL_DF = 4.0


def log_normal(z):
    """Log density of the standard normal at z (n, dim), nats."""
    return -0.5 * (z**2).sum(axis=1) - 0.5 * z.shape[1] * LOG_2PI


def elbo_gain(target, before, after, n, rng):
    """What one warp gains over another in ELBO, on the same fresh normal draws.

    Parameters
    ----------
    target : Target
    before, after : Warp
    n : int
    rng : numpy.random.Generator

    Returns
    -------
    Estimate
        In nats; not finite where the density is zero at a draw.
    """
    z = Gaussian("diag").matched_draws(n, before.dim, rng)
    each = [
        target.log_density(warp.forward(z)) + warp.log_jacobian(z)
        for warp in (after, before)
    ]
    with np.errstate(invalid="ignore"):
        return Estimate(*mean_and_se(each[0] - each[1]))


def tail_gain(target, before, after, n, rng):
    """By how much ``KL(p || q)`` falls from one warp to another, from wide draws.

    The ELBO does not see where q has no draws. These come from heavy-tailed
    distributions about both, a half from either, and are weighted towards p.

    Parameters
    ----------
    As in `elbo_gain`.

    Returns
    -------
    Estimate
        ``E_p[ln q_after - ln q_before]`` in nats.
    """
    warps, dim = (before, after), before.dim
    radius = np.sqrt(_TAIL_DF / rng.chisquare(_TAIL_DF, (n, 1)))
    wide = radius * rng.standard_normal((n, dim))
    half = n // 2
    y = np.concatenate([before.forward(wide[:half]), after.forward(wide[half:])])
    with np.errstate(over="ignore", invalid="ignore"):
        z = [warp.inverse(y) for warp in warps]
        jacobians = [w.log_jacobian(x) for w, x in zip(warps, z, strict=True)]
        # NaN where the inverse overflows: no mass is there.
        log_q, log_wide = (
            [np.fmax(f(x) - j, -np.inf) for x, j in zip(z, jacobians, strict=True)]
            for f in (log_normal, _log_wide)
        )
        log_w = target.log_density(y) - np.logaddexp(*log_wide)
        difference = log_q[1] - log_q[0]
    # Where only the new map has no mass the loss is infinite, and counts.
    usable = np.isfinite(log_w) & (difference < np.inf)
    if not usable.any():
        return Estimate(np.nan, np.nan)
    w = np.exp(log_w[usable] - log_w[usable].max())
    difference, w = difference[usable][w > 0.0], w[w > 0.0]
    return Estimate(*mean_and_se(difference, w / w.sum()))


def _log_wide(z):
    """Log density of the multivariate t distribution that wide draws have."""
    dim, df = z.shape[1], _TAIL_DF
    constant = gammaln(0.5 * (df + dim)) - gammaln(0.5 * df)
    constant -= 0.5 * dim * np.log(np.pi * df)
    return constant - 0.5 * (df + dim) * np.log1p((z**2).sum(axis=1) / df)
