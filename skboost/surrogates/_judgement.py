"""What few evaluations say of a mixture: importance weights of all that was drawn.

The ELBO of a mixture comes from draws that nothing was fitted to. The evidence does not
depend on the mixture, so that every draw since the run began counts: with r the mixture
of all densities that were drawn from, by their numbers of draws, and any constant c,

    Z = c + E_r[(p - c q) / r],

whose noise is that of the differences between p and q; and wide densities among those
in r see mass that q does not reach.
"""

from typing import NamedTuple

import numpy as np

from skboost._math import N_ERRORS, log_sum_exp, mean_and_se
from skboost.approximation import FreshDraws, Mixture, RemainingKL, psis
from skboost.surrogates._evaluations import Evaluations


class Proposals(NamedTuple):
    """Densities that were drawn from, and how often.

    Attributes
    ----------
    mixtures : tuple of Mixture
    counts : tuple of int
    """

    mixtures: tuple = ()
    counts: tuple = ()

    def and_more(self, *pairs):
        """These and further pairs of a mixture and a number of draws."""
        mixtures, counts = zip(*pairs, strict=True)
        return Proposals((*self.mixtures, *mixtures), (*self.counts, *counts))

    @property
    def n(self):
        """Draws in all."""
        return sum(self.counts)

    def log_density(self, theta):
        """Log density of a draw of any of them, nats."""
        table = np.column_stack([m.log_density(theta) for m in self.mixtures])
        return log_sum_exp(table, np.log(np.array(self.counts) / self.n))


def widened(mixture, width):
    """The components of a mixture, wider, without skewing weights."""
    plain = mixture.base
    parts = tuple((f, f.widen(np.array(p), width)) for f, p in plain.components)
    return Mixture(parts, plain.weights)


def judged_draws(target, mixture, n, scored, rng):
    """Draws of a mixture and of a wider copy, weighted as draws of the mixture.

    Parameters
    ----------
    target : Target
    mixture : Mixture
    n : int
    scored : bool
        Whether gradients are asked for, too.
    rng : numpy.random.Generator

    Returns
    -------
    fresh : FreshDraws
    evaluations : Evaluations
    pairs : list of (Mixture, int)
        What was drawn from.
    """
    # Share of the draws of a judgement that come from a wider copy, and its width.
    wide_share, width = 0.25, 2.0
    wide = widened(mixture, width)
    n_wide = max(int(wide_share * n), 1)
    parts = [mixture.sample(n - n_wide, rng), wide.sample(n_wide, rng)]
    found = Evaluations.at(target, np.concatenate(parts), scored)
    pairs = [(mixture, n - n_wide), (wide, n_wide)]
    log_r = Proposals().and_more(*pairs).log_density(found.points)
    weights = np.exp(mixture.log_density(found.points) - log_r)
    source = np.zeros(n, dtype=int)
    fresh = FreshDraws(
        mixture, found.points, weights / weights.sum(), source, found.values, None
    )
    return fresh, found, pairs


def remaining_of(fresh, drawn, proposals):
    """What is left between the ELBO of a mixture and the evidence.

    Parameters
    ----------
    fresh : FreshDraws
        Of the mixture.
    drawn : Evaluations
        All that was drawn.
    proposals : Proposals
        From what.

    Returns
    -------
    RemainingKL
    """
    if fresh.outside == 1.0:
        return RemainingKL(np.nan, np.nan, np.inf, np.inf, 1.0)
    log_r = proposals.log_density(drawn.points)
    log_w = drawn.values - log_r
    top = log_w.max()
    ratio = np.exp(fresh.mixture.log_density(drawn.points) - log_r)
    weight = np.exp(log_w - top)
    constant = weight.mean() / ratio.mean()
    excess, se = mean_and_se(weight - constant * ratio)
    # Never less than half of what the weights say alone.
    z = max(constant + excess, 0.5 * weight.mean())
    elbo = fresh.elbo()
    inside = np.isfinite(fresh.log_joint)
    shares = fresh.row_weights[inside] / fresh.row_weights[inside].sum()
    off = fresh.log_ratio[inside]
    half, se_half = mean_and_se(0.5 * (off - shares @ off) ** 2, shares)
    return RemainingKL(
        float(top + np.log(z) - elbo.value),
        float(np.hypot(se / z, elbo.se)),
        psis(log_w).khat,
        half + N_ERRORS * se_half,
        fresh.outside,
    )
