"""Regressions of many rows: a quadratic in place of the log likelihood.

Where rows are many beside parameters, the log likelihood is nearly a quadratic around
the mode of the posterior. Under normal priors the Gaussian of every scale and its
evidence are then known in closed form, and the shift of the means that third
derivatives ask for says how far from a quadratic the log likelihood is.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from skboost._math import log_sum_exp
from skboost.families import MAX_FULL_DIM, FullGaussian
from skboost.proposals._scale_nodes import DROP, ScaleNodes, even_nodes
from skboost.proposals._signed_rows import Gaussians
from skboost.targets import (
    ColumnScale,
    GLMTarget,
    Logistic,
    NormalPrior,
    OrdinalTarget,
    ScaleNode,
)

# Squared parameters, as a share of the rows, up to which a quadratic is tried: half the
# squared shift of the means is a sixth of it or less, and more where classes separate.
_FEW = 5.0
# Rows with which one is tried at least: of fewer the fourth derivatives count, and
# expectation propagation takes milliseconds.
_FEWEST = 300
# Half the squared shift of the means, in standard deviations, up to which a quadratic
# around the mode will do: what is left of Gaussians that were shifted is .01 nats at
# most then. Beyond it the quadratic is that of the expected log likelihood, until a
# pass over the rows moves the Gaussian by so many nats at most; passes at most.
_CLOSE, _MATCHED, _MOST_MATCHES = 0.03, 3e-3, 8
# The same at the likely scale whose mean is farthest from the centre, which counts for
# less: nats below the highest density of ln s of likely scales, and squared distances,
# in standard deviations, that need no look.
_CLOSE_THERE, _LIKELY, _NEXT = 0.15, 3.0, 0.1
# And where the log likelihood is expected, whose widths count as well, in nats.
_MATCHED_THERE = 0.05
# Rows of a part at least, and rows of it, and of its rarer class, for each parameter;
# of more rows one in so many, which saves a Hessian of all.
_PART, _PER_PARAMETER, _ONE_IN = 3000, 30, 20
# Rows that tell the shift of the means at least, and for each parameter.
_SHIFTING, _SHIFTING_EACH = 2000, 10
# Squared Newton steps, in standard deviations, with which searches on a part and on all
# rows end, and below which the Hessian stays as it is; steps and moves at most.
_ROUGH, _DONE, _KEPT, _MOST_STEPS, _MOST_MOVES = 0.3, 1e-3, 1.0, 50, 10


class Quadratic(NamedTuple):
    """The log likelihood ``value + slope' t - t' bend t / 2`` around `centre`."""

    centre: np.ndarray
    value: float
    slope: np.ndarray
    bend: np.ndarray

    @classmethod
    def around(cls, theta, value, slope, bend):
        """That with this value, slope and bend at `theta`."""
        pulled = bend @ theta
        value -= theta @ (slope + 0.5 * pulled)
        return cls(theta, value, slope + pulled, bend)

    def under(self, prior, scale):
        """`AtScales` for each kind of prior that has a common scale; none of others."""
        return (
            []
            if prior is None
            else [AtScales.of(self, prior, scale, root) for root in prior.roots]
        )


class AtScales(NamedTuple):
    """A quadratic under priors of one kind, at all scales: in the coordinates of the
    principal axes of its bend. What has no common scale, as intercepts, is integrated
    out.
    """

    axes: np.ndarray
    bends: np.ndarray
    slopes: np.ndarray
    constant: float
    # Of coordinates without the scale: their slopes, inverse bends with those of the
    # prior, the bends with others, and where all are if these come last.
    own: tuple

    @classmethod
    def of(cls, quadratic, prior, scale, root):
        shared = np.resize(prior.shared, len(scale))
        root = np.diag(scale[shared]) if root is None else scale[shared, None] * root
        bend, slope = quadratic.bend[np.ix_(shared, shared)], quadratic.slope[shared]
        constant, own = quadratic.value, None
        if not shared.all():
            beside, pull = quadratic.bend[shared][:, ~shared], quadratic.slope[~shared]
            alone = quadratic.bend[np.ix_(~shared, ~shared)]
            alone = alone + np.diag(scale[~shared] ** -2.0)
            inverse = np.linalg.inv(alone)
            bend = bend - beside @ inverse @ beside.T
            slope = slope - beside @ inverse @ pull
            log_det = np.linalg.slogdet(alone)[1] + 2.0 * np.log(scale[~shared]).sum()
            constant += 0.5 * (pull @ inverse @ pull - log_det)
            own = pull, inverse, beside, np.argsort(np.argsort(~shared, kind="stable"))
        bends, axes = np.linalg.eigh(root.T @ bend @ root)
        axes = root @ axes
        return cls(axes, np.maximum(bends, 0.0), axes.T @ slope, constant, own)

    def log_evidence(self, log_s):
        """Of every scale, (n_scales,)."""
        square = np.exp(2.0 * log_s)[:, None]
        grown = 1.0 + self.bends * square
        each = self.slopes**2 * square / grown - np.log(grown)
        return self.constant + 0.5 * each.sum(axis=1)

    def gaussians(self, log_s):
        """Means (n_scales, dim) and covariances of all parameters."""
        square = np.exp(2.0 * log_s)[:, None]
        share = square / (1.0 + self.bends * square)
        means = (share * self.slopes) @ self.axes.T
        covariances = (self.axes * share[:, None, :]) @ self.axes.T
        if self.own is None:
            return means, covariances
        pull, inverse, beside, place = self.own
        across = -covariances @ (beside @ inverse)
        more = (pull - means @ beside) @ inverse
        corner = inverse - (beside @ inverse).T @ across
        means = np.column_stack([means, more]).take(place, axis=1)
        top = np.concatenate([covariances, across], axis=2)
        bottom = np.concatenate([across.swapaxes(1, 2), corner], axis=2)
        whole = np.concatenate([top, bottom], axis=1)
        return means, whole.take(place, axis=1).take(place, axis=2)


def may_be_quadratic(target, family):
    """Whether a quadratic is tried where rows are many, under normal priors."""
    learned, kind = target.scale_prior, type(target)
    # At every scale components of other families are made of full ones.
    full = family.exact_expectations and family.full_covariance
    full = full or (kind is GLMTarget and learned is not None)
    plain = kind is GLMTarget or (kind is OrdinalTarget and learned is not None)
    normal = plain and type(target.coef_prior) is NormalPrior
    tried = normal and full and target.dim <= MAX_FULL_DIM
    tried = tried and target.likelihood.n_outputs == 1
    return tried and not isinstance(learned, ColumnScale)


def quadratic_nodes(target, start=None):
    """`ScaleNodes` for each kind of prior; None where a quadratic is not close enough.

    Where no scale is learned they are one Gaussian. The search for a mode begins at
    zero, or at a start where the log likelihood bends there to its mode.
    """
    prior, n = target.scale_prior, sum(target.rows.map(_mass))
    if n < _FEWEST or target.dim**2 > _FEW * n:
        return None
    try:
        with np.errstate(all="ignore"):
            theta, node = _start(target) if start is None else (start, _first(prior))
            return _nodes(target, *_centred(target, theta, node, _DONE))
    except LinAlgError:
        return None


def _mass(table):
    """Rows that a table counts as."""
    return np.broadcast_to(table.weight, len(table)).sum()


def _first(prior):
    """The scale that a search begins with; None where none is learned."""
    return None if prior is None else ScaleNode(float(np.log(prior.factor.scale)))


def _start(target):
    """Where to begin and the heaviest scale: by a part of the rows, if many."""
    dim, node = target.dim, _first(target.scale_prior)
    wanted = _PER_PARAMETER * dim
    step = min(len(target.rows) // max(_PART, wanted), _ONE_IN)
    if step < 2:
        return np.zeros(dim), node
    part = target.part(step)
    if isinstance(target.likelihood, Logistic):
        ones = part.rows.y.sum()
        rarer = min(ones, len(part.rows) - ones)
        if rarer < wanted:
            step = int(step * rarer / wanted)
            if step < 2:
                return np.zeros(dim), node
            part = target.part(step)
    quadratic, node, _ = _centred(part, np.zeros(dim), node, _ROUGH)
    return quadratic.centre, node


def _centred(target, theta, node, done):
    """The quadratic around the mode at the heaviest scale, that scale, and the
    quadratic at all scales of every kind.

    Around that of another scale it would be far off: likelihoods that a scale hardly
    shrinks have their mode where they are flat.
    """
    for _ in range(_MOST_MOVES):
        quadratic = _mode(target, theta, node, done)
        kinds, node = [], None
        if target.scale_prior is not None:
            kinds = quadratic.under(target.prior, target.scale)
            node = _heaviest(kinds, target.prior)
        precision = precision_at(target, node)
        aim = np.linalg.solve(quadratic.bend + precision, quadratic.slope)
        away = aim - quadratic.centre
        theta = aim
        if away @ (quadratic.bend + precision) @ away < max(done, _ROUGH):
            return quadratic, node, kinds
    raise LinAlgError("the mode moves with the scale.")


def _mode(target, theta, node, done):
    """The quadratic around the mode at one scale, by Newton's method.

    The Hessian of the step before will do for the last steps.
    """
    precision, step = precision_at(target, node), np.zeros(target.dim)
    bends, best = True, -np.inf
    for _ in range(_MOST_STEPS):
        value, slope, *bend = target.expansion(theta, bends)
        pulled = precision @ theta
        height = value - 0.5 * theta @ pulled
        if not height >= best - 1e-6 * abs(best):
            step = 0.25 * step
            theta = theta - 3.0 * step
            continue
        best = max(best, height)
        if bends:
            (hessian,) = bend
            root = cho_factor(hessian + precision)
        step = cho_solve(root, slope - pulled)
        squared = step @ (slope - pulled)
        if squared < done:
            return Quadratic.around(theta, value, slope, hessian)
        theta, bends = theta + step, not squared < _KEPT
    raise LinAlgError("the search for a mode does not end.")


def precision_at(target, node):
    """Of all parameters under the prior at one scale, or of all that are known."""
    prior, scale = target.prior, target.scale
    if node is None:
        return np.diag(scale**-2.0)
    shared = np.resize(prior.shared, len(scale))
    scale = scale * np.where(shared, np.exp(node.log_s), 1.0)
    precision = np.diag(scale**-2.0)
    if node.kind:
        own = np.outer(scale[shared], scale[shared])
        precision[np.ix_(shared, shared)] = prior.precisions[node.kind] / own
    return precision


def _heaviest(kinds, prior):
    heights = [heights_of(one, prior) for one in kinds]
    kind, k = np.unravel_index(np.argmax(heights), np.shape(heights))
    return ScaleNode(float(prior.log_s[k]), int(kind))


def _nodes(target, quadratic, node, kinds):
    """`ScaleNodes` with shifted means; None where a quadratic is not close enough."""
    mean, covariance = _given(target, quadratic, node)
    pull, miss, told = shift_of(target, mean, np.linalg.cholesky(covariance))
    if not miss <= _CLOSE:
        # Predictors wider than what bends are matched by none, where rows are few.
        hopeless = not told and len(target.rows) < _PART
        if hopeless or type(target) is not GLMTarget or node is None:
            return None
        quadratic, kinds = _matched(target, quadratic, node, pull)
        pull = np.zeros(target.dim)
    if node is None:
        mean, covariance = _given(target, quadratic, node)
        mean = mean + covariance @ pull
        alone = Gaussians(np.zeros(1), mean[None], covariance[None])
        return [ScaleNodes(np.zeros(1), np.ones(1), alone.of, 0.0, np.zeros(1, bool))]
    if not _holds_far_off(target, quadratic, kinds, matched=not miss <= _CLOSE):
        return None
    return [spread(one, target.prior, pull) for one in kinds]


def shift_of(target, mean, factor):
    """What third derivatives pull a mean by, half the squared shift in sds, and
    whether they tell it; under a covariance F F^T, by as many rows as are needed.
    """
    enough = max(_SHIFTING, _SHIFTING_EACH * target.dim)
    step = len(target.rows) // enough
    part = target if step < 2 else target.part(step)
    pull, told = part.skewness(mean, factor)
    return pull, 0.5 * np.sum((factor.T @ pull) ** 2), told


def is_plain(target, component):
    """Whether it is a Gaussian for rows under a normal prior, of which closed forms
    say what is left."""
    gaussian = isinstance(component.family, FullGaussian)
    return (
        gaussian
        and type(target) is GLMTarget
        and type(target.coef_prior) is NormalPrior
    )


def shift_at(target, component):
    """Half the squared shift, in standard deviations, that third derivatives ask of a
    mean, and whether they tell it; not unless it `is_plain`, nor of several classes.
    """
    if target.likelihood.n_outputs > 1 or not is_plain(target, component):
        return np.inf, False
    mean, _, factor = component.structure()
    about = target.centring.about
    return shift_of(target, about(mean), about(factor.T).T)[1:]


def _matched(target, quadratic, node, pull):
    """The quadratic that the expected log likelihood is, alone and at all scales.

    Expected under the Gaussian there, whose evidence its lower bound stands for: that
    of coordinate ascent, which moves the means as third derivatives ask, and widths.
    """
    mean, covariance = _given(target, quadratic, node)
    mean = mean + covariance @ pull
    for _ in range(_MOST_MATCHES):
        root = np.linalg.cholesky(covariance)
        value, slope, bend = target.expected_expansion(mean, root)
        value += 0.5 * np.sum(bend * covariance)
        quadratic = Quadratic.around(mean, value, slope, bend)
        after, width = _given(target, quadratic, node)
        nats = nats_between(after, width, mean, root)
        mean, covariance = after, width
        prior, scale = target.prior, target.scale
        if nats <= _MATCHED:
            return quadratic, quadratic.under(prior, scale)
        # Other kinds of priors have no part in where the Gaussian goes.
        one = AtScales.of(quadratic, prior, scale, prior.roots[node.kind])
        node = _heaviest([one], prior)._replace(kind=node.kind)
        mean, covariance = _given(target, quadratic, node)
    raise LinAlgError("the Gaussian moves on.")


def nats_between(mean, covariance, other, root):
    """Kullback-Leibler divergence of a Gaussian from N(other, root root^T)."""
    moved = np.linalg.solve(root, mean - other)
    grown = np.linalg.eigvalsh(
        np.linalg.solve(root, np.linalg.solve(root, covariance).T)
    )
    return 0.5 * (moved @ moved + np.sum(grown - 1.0 - np.log(grown)))


def _holds_far_off(target, quadratic, kinds, matched):
    """Whether the quadratic is close at the likely scale whose mean is farthest.

    There the slope of the log likelihood is that of the quadratic, by a pass over all
    rows where the mean is not next to the centre.
    """
    prior = target.prior
    farthest, there = 0.0, None
    for kind, one in enumerate(kinds):
        log_s = prior.log_s[inside(one, prior, _LIKELY)]
        if not len(log_s):
            return False
        log_s = log_s[[0, -1]]
        for s, mean, covariance in zip(log_s, *one.gaussians(log_s), strict=True):
            away = mean - quadratic.centre
            distance = away @ np.linalg.solve(covariance, away)
            if distance >= farthest:
                farthest = distance
                there = ScaleNode(float(s), kind), mean, covariance
    if farthest < _NEXT:
        return True
    node, mean, covariance = there
    root = np.linalg.cholesky(covariance)
    if matched:
        _, slope, bend = target.expected_expansion(mean, root)
        grown = np.linalg.eigvalsh(root.T @ (bend - quadratic.bend) @ root)
        miss = 0.25 * np.sum(grown**2)
    else:
        _, slope = target.expansion(mean, bends=False)
        miss = shift_of(target, mean, root)[1]
    rest = slope - precision_at(target, node) @ mean
    miss += 0.5 * rest @ covariance @ rest
    return miss <= (_MATCHED_THERE if matched else _CLOSE_THERE)


def _given(target, quadratic, node):
    """Mean and covariance at one scale of the prior."""
    covariance = np.linalg.inv(quadratic.bend + precision_at(target, node))
    return covariance @ quadratic.slope, covariance


def spread(kind, prior, pull):
    """`ScaleNodes` at equal distances where the posterior of ln s is."""
    low, high = prior.log_s[inside(kind, prior, DROP)][[0, -1]]
    log_s = even_nodes(low, high)
    log_evidence = kind.log_evidence(log_s)
    weights = log_evidence + prior.factor.value_and_score(log_s)[0]
    weights = np.exp(weights - weights.max())
    weights /= weights.sum()
    means, covariances = kind.gaussians(log_s)
    gaussians = Gaussians(log_evidence, means + covariances @ pull, covariances)
    total = log_sum_exp(heights_of(kind, prior)[None])[0]
    return ScaleNodes(log_s, weights, gaussians.of, total, np.zeros(len(log_s), bool))


def heights_of(kind, prior):
    """Log masses of the grid of ln s, not normalised."""
    return kind.log_evidence(prior.log_s) + prior.log_mass


def inside(kind, prior, drop):
    """Where the grid of ln s is so few nats below its highest point."""
    height = heights_of(kind, prior)
    return height > height.max() - drop
