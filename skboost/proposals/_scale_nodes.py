"""Gaussian fits for every value of a scale, and the scale's posterior by evidence."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.interpolate import splev, splrep

from skboost.proposals._sites import Sites

# Values of ln s above that of the prior's own scale which are tried first, and the step
# beyond them. Larger scales are seldom likely, and cost the most.
_STEP = 1.35
_COARSE = np.arange(-3.0, 2.5, _STEP)
_FARTHEST = 12
# Nats below the highest density of ln s down to which it has nodes.
DROP = 6.0
# Values that were placed for another prior will do where their ends are so far below.
_ENOUGH = 5.0
# What is so much lower is as good as that much.
_FAR = 1e3
# Nodes at least, and the largest distance of two in ln s.
_LEAST, _SPACING = 6, 0.6
# Where they turn out to end too early by a larger share of what they cover, they are
# placed anew, so many times at most.
_NEAR, _ROUNDS = 0.1, 3
# Of convergence where only the evidence is wanted.
_ROUGH = 0.02


class ScaleNodes(NamedTuple):
    """Values of ln s, their probabilities, and the Gaussians of the parameters.

    ``given(which)`` are the Gaussians of some, `log_evidence` is averaged over the
    scale, and `bounded` says where a lower bound stands for it. `sites` are those of
    the rows, and `near` has all values and sites, those without a Gaussian, too.
    """

    log_s: np.ndarray
    weights: np.ndarray
    given: Callable
    log_evidence: float
    bounded: np.ndarray
    sites: Sites | None = None
    near: tuple = ()

    @property
    def gaussians(self):
        """Of all values."""
        return self.given(slice(None))


def even_nodes(low, high):
    """As many values of ln s at equal distances as are needed between two ends."""
    return np.linspace(
        low, high, max(_LEAST, 1 + int(np.ceil((high - low) / _SPACING)))
    )


def scale_nodes(
    rows, variances_at, log_prior, centre, near=None, lightest=0.0, cuts=lambda: False
):
    """`ScaleNodes` of a scale s whose log has the density `log_prior`.

    ``variances_at(log_s)`` are those of the parameters, `centre` is the logarithm of
    the prior's own scale. Few nodes show where the posterior of ln s is, and nodes at
    equal distances cover it; their probabilities are those of the evidence. Where it is
    near other `ScaleNodes` of the same rows, the values are theirs where they cover it.
    Those of a probability of `lightest` at most have no Gaussian. Where ``cuts()`` says
    that limits are met, the values that are fitted will do.
    """
    if near is None:
        nodes = centre + _COARSE
        sites = rows.initial(len(nodes))
        predictors, sites = rows.fitted(variances_at(nodes), sites, tol=_ROUGH)
    else:
        nodes, sites = near.near
        predictors, sites = rows.fitted(variances_at(nodes), sites)
    n_rounds, height = 0, log_prior(nodes) + sites.log_evidence
    ends = max(height[0], height[-1]) < height.max() - _ENOUGH
    if (near is None or not ends) and not cuts():
        n_rounds, known = _ROUNDS, _widened(rows, variances_at, log_prior, nodes, sites)
        low, high = _covered(*known, log_prior)
    for _ in range(n_rounds):
        nodes = even_nodes(low, high)
        nearest = np.abs(nodes[:, None] - known[0]).argmin(axis=1)
        variances = variances_at(nodes)
        predictors, sites = rows.fitted(variances, known[1].of(nearest))
        known = _joined(*known, nodes, sites)
        low, high = _covered(*known, log_prior)
        near_enough = _NEAR * (nodes[-1] - nodes[0])
        if nodes[0] - low + high - nodes[-1] < near_enough or cuts():
            break
    height = sites.log_evidence + log_prior(nodes)
    weights = np.exp(height - height.max())
    total = weights.sum()
    weights = weights / total
    some = np.flatnonzero(weights > lightest)
    log_evidence = height.max() + np.log(total * (nodes[1] - nodes[0]))

    def given(which):
        return rows.given_sites(predictors.of(some[which]), sites.of(some[which]))

    own = sites.of(some)
    parts = nodes[some], weights[some], given, log_evidence, own.bounded, own
    return ScaleNodes(*parts, (nodes, sites))


def _widened(rows, variances_at, log_prior, log_s, sites):
    """Values of ln s and more, until the posterior ends between the outermost."""
    for _ in range(_FARTHEST):
        height = sites.log_evidence + log_prior(log_s)
        # Small scales leave the evidence as it is, and all that the prior asks for can
        # be fitted at once.
        below = log_s[0] - _STEP * np.arange(_FARTHEST)
        falls = sites.log_evidence[0] + log_prior(below) <= height.max() - DROP
        below = below[1 : 1 + np.argmax(np.append(falls[:-1], True))]
        above = log_s[-1:] + _STEP
        more = np.append(below, above[height[-1:] > height.max() - DROP])
        if not more.size:
            break
        nearest = np.abs(more[:, None] - log_s).argmin(axis=1)
        _, new = rows.fitted(variances_at(more), sites.of(nearest), tol=_ROUGH)
        log_s, sites = _joined(log_s, sites, more, new)
    return log_s, sites


def _joined(log_s, sites, more, new):
    """Known values and others in their order, of which the others count where near."""
    away = np.abs(log_s[:, None] - more).min(axis=1) > 1e-2
    log_s, sites = np.append(log_s[away], more), sites.of(away)
    order = np.argsort(log_s)
    parts = [
        np.concatenate([values, getattr(new, name)])[order]
        for name, values in vars(sites).items()
    ]
    return log_s[order], type(sites)(*parts)


def _covered(log_s, sites, log_prior):
    """Ends of the part of ln s whose density is within some nats of the highest."""
    height = sites.log_evidence + log_prior(log_s)
    # Far below, where fits fail, it is of no use how far.
    height = np.fmax(height, max(-1e300, np.fmax.reduce(height)) - _FAR)
    fine = np.linspace(log_s[0], log_s[-1], 1000)
    smooth = splev(fine, splrep(log_s, height))
    inside = fine[smooth >= smooth.max() - DROP]
    return inside[0], inside[-1]
