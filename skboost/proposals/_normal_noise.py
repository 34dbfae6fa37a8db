"""First mixtures of regressions with normal noise, from sums over rows alone.

Given the prior's common scale s and the noise scale, coefficients are Gaussian and the
evidence is closed. In the coordinates in which one matrix is diagonal, every s costs a
product (Bishop, Pattern Recognition and Machine Learning, 2006, section 3.5); noise
scales are averaged over on a grid.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import sparse

from skboost._math import LOG_2PI, log_sum_exp
from skboost.proposals._propagated import components_of
from skboost.proposals._scale_nodes import DROP, even_nodes
from skboost.targets import (
    CommonScale,
    GLMTarget,
    KnownScale,
    NoisyGLMTarget,
    NormalNoise,
    NormalPrior,
    ScaleNode,
)

# Nats below the highest density down to which scales of the noise are looked at, their
# nodes, and how often these are placed anew.
_DROP_NOISE, _N_NOISE, _ROUNDS = 16.0, 48, 8
# Standard deviation of the log noise scale, times the root of the number of parameters,
# up to which it is taken as a whole, and parts into which it is cut at most.
_NARROW, _MOST_PARTS = 0.7, 10
# Probability of a component below which it is left out.
_LIGHTEST = 1e-3
# Of the log noise scale from that of the responses, at first.
_LOWEST, _HIGHEST = -9.0, 3.0


def has_normal_noise(target, family):
    """Whether evidence is closed: normal noise, and a normal prior with a scale."""
    prior = target.scale_prior
    if not isinstance(target, GLMTarget) or type(prior) is not CommonScale:
        return False
    known = target.likelihood
    noise = known.noise if isinstance(known, KnownScale) else known
    full = family.exact_expectations and family.full_covariance
    return type(noise) is NormalNoise and type(prior.coef) is NormalPrior and full


class Moments(NamedTuple):
    """Sums over rows about the means of columns and responses, in units of the prior.

    They are on the `axes` (dim, dim) on which products of columns are diagonal, with
    the diagonal `size`. `mean` is that of the columns beyond the target's centre, zero
    without an intercept, as is the `level` of the responses.
    """

    weight: float
    axes: np.ndarray
    size: np.ndarray
    products: np.ndarray
    square: float
    mean: np.ndarray
    level: float

    @classmethod
    def of(cls, target):
        """Of the rows of a target: two passes, so that nothing cancels."""
        rows, n = target.rows, target.rows.n_features
        centre = np.zeros(n + 1)
        weight, total = rows.sum(_totals, n, n + 1)
        if target.intercept:
            centre = total / weight
        (found,) = rows.sum(partial(_products, centre), n, (n + 1) ** 2)
        own = np.append(target.scale[:n], 1.0)
        found = target.temperature * found * np.outer(own, own)
        size, axes = np.linalg.eigh(found[:n, :n])
        beyond = centre[:n] - (0.0 if (at := target.centring.columns) is None else at)
        products, mean = found[:n, n] @ axes, (own[:n] * beyond) @ axes
        weight, square = target.temperature * weight, float(found[n, n])
        size = np.maximum(size, 0.0)
        return cls(weight, axes, size, products, square, mean, centre[n])


def _joined(block):
    X = block.X.toarray() if sparse.issparse(block.X) else block.X
    weight = np.broadcast_to(block.weight, len(block))
    return np.column_stack([X, block.y]), weight


def _totals(block):
    """Weight of rows, and weighted sums of columns and responses."""
    table, weight = _joined(block)
    return weight.sum(), weight @ table


def _products(centre, block):
    """Weighted products of columns and responses, less their means."""
    table, weight = _joined(block)
    away = table - centre
    return (away.T @ (away * weight[:, None]),)


class Posterior(NamedTuple):
    """The Gaussians of coefficients at scales of the prior and of the noise.

    On `axes` and in units of the prior: the log evidence `height` (n_scales, n_noise),
    `variances` beside the intercept, what rows say of means, `shift` (n_noise, dim),
    and the variance of the mean response before the rows, `level`.
    """

    height: np.ndarray
    variances: np.ndarray
    shift: np.ndarray
    level: np.ndarray

    @classmethod
    def at(cls, log_s, level, sums, width):
        """At values of ln s and of the log noise scale, (n,) each.

        `width` is the scale of the intercept's prior, None where there is none. The
        intercept is integrated out: it leaves a term of rank one.
        """
        noise, n = np.exp(2.0 * level)[:, None], len(sums.size)
        shift, square = sums.products / noise, sums.square / noise[:, 0]
        constant = -0.5 * sums.weight * (LOG_2PI + np.log(noise[:, 0]))
        if width is not None:
            spread = width**2 + noise / sums.weight
            shift = shift + sums.mean * sums.level / spread
            square = square + sums.level**2 / spread[:, 0]
            constant += 0.5 * np.log(noise / sums.weight / spread)[:, 0]
        precision = sums.size / noise + np.exp(-2.0 * log_s)[:, None, None]
        volume = np.log(precision).sum(axis=-1) + 2.0 * n * log_s[:, None]
        variances, more = 1.0 / precision, np.ones(precision.shape[:2])
        fit = np.einsum("sln,ln->sl", variances, shift**2)
        if width is not None:
            more = spread[:, 0] + variances @ sums.mean**2
            volume += np.log(more / spread[:, 0])
            fit -= np.einsum("sln,ln->sl", variances, sums.mean * shift) ** 2 / more
        return cls(constant - 0.5 * (volume + square - fit), variances, shift, more)


def normal_noise_nodes(proposer, target, settings):
    """Gaussians that have the posterior's moments at every scale, their weights, and
    the `ScaleNode` of each.

    Several where the noise scale is so uncertain that one Gaussian would not do.
    """
    family = proposer.family
    target.ledger.spend()
    sums, prior = Moments.of(target), target.scale_prior
    width = target.scale[len(sums.mean)] if target.intercept else None
    levels, log_noise = _noise_levels(target, sums, width)
    found = Posterior.at(prior.log_s, levels, sums, width)
    height = prior.log_mass + log_sum_exp(found.height + log_noise)
    log_s = even_nodes(*prior.log_s[height > height.max() - DROP][[0, -1]])
    found = Posterior.at(log_s, levels, sums, width)
    given = found.height + log_noise
    height = log_sum_exp(given)
    share = np.exp(given - height[:, None])
    height += prior.factor.value_and_score(log_s)[0]
    height -= height.max()
    parts = [_parts(one, levels, target.dim) for one in share]
    places = np.repeat(np.arange(len(log_s)), [*map(len, parts)])
    shares = np.vstack(parts)
    moments = _moments(target, found, places, shares, levels, sums, width)
    weights = np.exp(height[places]) * shares.sum(axis=1)
    weights[weights < _LIGHTEST * weights.max()] = 0.0
    nodes = [ScaleNode(float(log_s[k])) for k in places]
    return components_of(target, family, *moments), weights, nodes


def _parts(share, levels, dim):
    """Probabilities of the log noise scale as a sum of parts so narrow as is needed.

    The spread of coefficients follows the noise scale, which one Gaussian cannot. Parts
    overlap as linear splines do, and the sum of their Gaussians is as smooth as it.
    """
    mean = share @ levels
    sd = np.sqrt(share @ (levels - mean) ** 2)
    if sd * np.sqrt(dim) < _NARROW:
        return [share]
    inside = levels[share > _LIGHTEST * share.max()]
    low, high = inside[[0, -1]]
    n_parts = 1 + int(np.ceil((high - low) * np.sqrt(dim)))
    # Of two nodes at least.
    n_parts = min(n_parts, _MOST_PARTS, 1 + len(inside) // 2)
    centres = np.linspace(low, high, n_parts)
    hats = [np.interp(levels, centres, one) for one in np.eye(n_parts)]
    parts = [share * hat for hat in hats]
    return [part for part in parts if part.sum() > _LIGHTEST]


def _noise_levels(target, sums, width):
    """Nodes of the log noise scale, and the logs of their prior masses."""
    if not isinstance(target, NoisyGLMTarget):
        return np.log([target.likelihood.scale]), np.zeros(1)
    prior, noise = target.scale_prior, target.prior.further
    # The prior keeps the noise scale from zero where all responses are the same.
    start = np.log(max(np.sqrt(sums.square / sums.weight), noise.scale))
    low, high = start + _LOWEST, start + _HIGHEST
    for _ in range(_ROUNDS):
        levels, step = np.linspace(low, high, _N_NOISE, retstep=True)
        log_noise = noise.value_and_score(levels)[0] + np.log(step)
        # For where levels matter a coarser grid of the prior's scale will do.
        table = Posterior.at(prior.log_s[::4], levels, sums, width).height
        height = log_noise + log_sum_exp((table + prior.log_mass[::4, None]).T)
        inside = levels[height > height.max() - _DROP_NOISE]
        narrower = inside[0] - step, inside[-1] + step
        if narrower[1] - narrower[0] > 0.7 * (high - low):
            break
        low, high = narrower
    return levels, log_noise


def _moments(target, found, places, share, levels, sums, width):
    """Means and covariances of all parameters about the centre, at some scales of what
    was found, where noise scales have the probabilities `share` (n, n_noise)."""
    step, n = np.ptp(levels[:2]), len(sums.size)
    share = np.where(share > 1e-7 * share.max(axis=1, keepdims=True), share, 0.0)
    share = (share / share.sum(axis=1, keepdims=True))[:, None, :]
    variances = found.variances[places]
    dents = variances * sums.mean / np.sqrt(found.level[places])[..., None]
    pull = (dents * found.shift).sum(axis=-1, keepdims=True)
    means = variances * found.shift - dents * pull
    within = np.zeros((len(places), target.dim, target.dim))
    within[:, range(n), range(n)] = (share @ variances)[:, 0]
    within[:, :n, :n] -= (dents.swapaxes(1, 2) * share) @ dents
    if width is not None:
        noise = np.exp(2.0 * levels) / sums.weight
        # The intercept is what the mean response leaves, shrunk a little.
        kept = width**2 / (width**2 + noise)
        across = variances * sums.mean - dents * (dents @ sums.mean)[..., None]
        within[:, :n, n] = within[:, n, :n] = -((share * kept) @ across)[:, 0]
        own = kept * (kept * (across @ sums.mean) + noise)
        within[:, n, n] = (share[:, 0] * own).sum(axis=1)
        level = kept * (sums.level - means @ sums.mean)
        means = np.concatenate([means, level[..., None]], axis=2)
    if isinstance(target, NoisyGLMTarget):
        last = np.broadcast_to(levels[:, None], (*means.shape[:2], 1))
        means = np.concatenate([means, last], axis=2)
    mean = share @ means
    away = means - mean
    covariance = within + (away.swapaxes(1, 2) * share) @ away
    if isinstance(target, NoisyGLMTarget):
        # A node stands for what is around it.
        last = covariance[:, -1, -1]
        np.maximum(last, step**2 / 12.0, out=last)
    turn = np.eye(target.dim)
    turn[:n, :n] = target.scale[:n, None] * sums.axes
    return mean[:, 0] @ turn.T, turn @ covariance @ turn.T
