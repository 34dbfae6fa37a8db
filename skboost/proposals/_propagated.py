"""First mixtures of logistic regressions, by expectation propagation in closed form."""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy import sparse
from scipy.special import logsumexp, softmax

from skboost.approximation import Mixture
from skboost.families import MAX_FULL_DIM, Component, FullGaussian
from skboost.modes import Modes
from skboost.proposals._anchored import anchored_nodes
from skboost.proposals._contrasts import ClassRows
from skboost.proposals._density import DensityProposer
from skboost.proposals._first import projected
from skboost.proposals._quadratic import may_be_quadratic, quadratic_nodes, shift_at
from skboost.proposals._scale_nodes import scale_nodes
from skboost.proposals._signed_rows import (
    CountRows,
    Gaussians,
    MixedRows,
    SignedRows,
    WideRows,
)
from skboost.targets import (
    ColumnScale,
    GLMTarget,
    HorseshoePrior,
    LaplacePrior,
    Logistic,
    Multinomial,
    NormalPrior,
    Poisson,
    ScaleNode,
    StudentTPrior,
    horseshoe_mixture,
    laplace_mixture,
    softmax_nodes,
    student_t_mixture,
)

# Entries of the matrix of rows up to which all of it is taken at once.
_MOST_ENTRIES = 1_100_000
# Of several classes: how many, parameters of all of them together and these times rows
# times classes, beyond which a fit takes more than some seconds; nodes by which the
# evidence of a row is corrected.
_MOST_CLASSES, _MOST_PARAMETERS, _MOST_PRODUCTS, _N_NODES = 20, 1000, 1_500_000, 64
# Of half the squared shift that third derivatives ask for, what a Gaussian leaves.
_LEFT = 0.4
# Rows or columns, whichever are fewer, up to which matrices of that size cost less than
# a search for low-rank covariances: a second or two for 41 on 500 rows of 400 columns.
_MOST_SWEPT = 600
# Probability of a node among those of its kind, and of the kind, below which there is
# no component.
_LIGHTEST = 2e-3


def propagates(target, family):
    """Whether a first mixture can be found by expectation propagation.

    Two classes, a prior that is a mixture of normal ones, and rows that fit; or
    hundreds of columns, and a scale that is learned. Of more classes the prior is a
    normal one that all of them have. Of counts the fits are variational, under a normal
    prior whose scale is learned. Where no scale is, components are full Gaussians.
    """
    if not isinstance(target, GLMTarget):
        return False
    if isinstance(target.scale_prior, ColumnScale):
        return False
    learns, likelihood = target.scale_prior is not None, target.likelihood
    prior = target.coef_prior
    size, normal = (len(target.rows), target.dim, family), type(prior) is NormalPrior
    if isinstance(likelihood, Multinomial):
        by_class = target.scale.reshape(likelihood.n_outputs, -1)
        same = normal and (by_class == by_class[0]).all()
        return same and has_room_for_classes(*size, likelihood.n_outputs, learns)
    wide = learns and type(prior) in (NormalPrior, HorseshoePrior) and is_wide(*size)
    if isinstance(likelihood, Poisson):
        return normal and (wide or (learns and has_room(*size, learns)))
    known = isinstance(likelihood, Logistic) and type(prior) in _MIXTURES
    return known and (wide or has_room(*size, learns))


def has_room(n_rows, dim, family, learns=False):
    """Whether rows fit, and components are full Gaussians or made of such.

    Where a scale is learned, what components of a family lack of a Gaussian is left
    out: they begin runs.
    """
    full = family.exact_expectations and family.full_covariance
    full = full or (learns and dim <= MAX_FULL_DIM)
    return n_rows * dim <= _MOST_ENTRIES and full


def has_room_for_classes(n_rows, dim, family, n_classes, learns=False):
    """The same of several classes, whose parameters together are `dim`."""
    full = family.full_covariance or (family.low_rank and dim > MAX_FULL_DIM)
    full = learns or (full and family.exact_expectations)
    small = n_classes <= _MOST_CLASSES and dim <= _MOST_PARAMETERS
    return full and small and n_rows * dim * n_classes <= _MOST_PRODUCTS


def is_wide(n_rows, dim, family):
    """Whether components have no room for covariances, but sweeps have."""
    many = n_rows * dim <= _MOST_ENTRIES and dim > MAX_FULL_DIM
    swept = min(n_rows, dim) <= _MOST_SWEPT
    return family.exact_expectations and family.low_rank and many and swept


# Priors that are mixtures of normal ones, which are a mixture of one.
_MIXTURES = {
    NormalPrior: None,
    LaplacePrior: lambda prior: laplace_mixture(),
    StudentTPrior: lambda prior: student_t_mixture(prior.checked().df),
    HorseshoePrior: lambda prior: horseshoe_mixture(),
}


def signed_rows(target, family):
    """Rows of two classes by sign, of more, or of counts, about the centre."""
    target.ledger.spend()
    wide = family.low_rank and target.dim > MAX_FULL_DIM
    parts = zip(*target.rows.map(_arrays), strict=True)
    X, y, weight, offset = map(np.concatenate, parts)
    if target.intercept:
        # Far from zero products would lose the digits of what tells rows apart.
        columns = target.centring.columns
        X = X if columns is None else X - columns
        X = np.column_stack([X, np.ones(len(X))])
    if isinstance(target.likelihood, Multinomial):
        nodes = softmax_nodes(target.likelihood.n_outputs - 1, _N_NODES)
        counts = weight > 0.0
        weight = target.temperature * weight[counts]
        return ClassRows(X[counts], y[counts].astype(int), weight, nodes)
    if isinstance(target.likelihood, Poisson):
        weight = target.temperature * weight
        return CountRows(X, weight, y, wide, offset=offset)
    turned = y <= 0
    X[turned], offset[turned] = -X[turned], -offset[turned]
    mixture, weight = _MIXTURES[type(target.coef_prior)], target.temperature * weight
    if mixture is not None:
        mixture = mixture(target.coef_prior)
        return MixedRows(X, weight, mixture, wide, offset=offset)
    return (WideRows if wide else SignedRows)(X, weight, offset=offset)


def _arrays(table):
    """Rows of a table, dense, with their responses, weights and offsets."""
    block = table.block(slice(0, len(table)))
    X = block.X.toarray() if sparse.issparse(block.X) else block.X
    offset = np.zeros(len(block)) if block.offset is None else block.offset
    return X, block.y, np.broadcast_to(block.weight, len(block)), offset


def components_of(target, family, means, covariances):
    """Of parameters, from moments (n, dim), (n, dim, dim) of those about the centre."""
    means, covariances = target.centring.gaussians_back(means, covariances)
    if covariances.ndim == 3:
        family = _kept(family, target.dim)
        covariances, roots = _proper(covariances)
        if type(family) is FullGaussian:
            params = family.from_factor(means, roots)
            return tuple(Component(family, one) for one in params)
    moments = zip(means, covariances, strict=True)
    return tuple(Component(family, projected(family, *pair)) for pair in moments)


def _kept(family, dim):
    """The family of components that are made of full Gaussians."""
    if family.rank_is_open and dim > MAX_FULL_DIM:
        return FullGaussian()
    # Of several tails the lightest.
    return family.variants()[-1].with_rank()


def _proper(covariances):
    """Covariances that have roots, which rounding may have taken, and these."""
    with suppress(np.linalg.LinAlgError):
        return covariances, np.linalg.cholesky(covariances)
    if len(covariances) > 1:
        pairs = [_proper(one[None]) for one in covariances]
        return tuple(map(np.concatenate, zip(*pairs, strict=True)))
    covariance = covariances[0]
    width = np.diag(np.diag(covariance))
    for added in np.geomspace(1e-15, 1.0, 26):
        with suppress(np.linalg.LinAlgError):
            root = np.linalg.cholesky(covariance + added * width)
            return (covariance + added * width)[None], root[None]
    raise ValueError(
        "X must have columns of sizes that one matrix can hold; this one's covariance "
        f"of the coefficients has variances from {np.diag(covariance).min():.3g} to "
        f"{np.diag(covariance).max():.3g}, and rounding leaves it no root. Standardise "
        "the columns, or take a smaller prior_scale or a temperature nearer to 1."
    )


@dataclass(frozen=True)
class PropagatedProposer(DensityProposer):
    """Begins with the Gaussian of expectation propagation, wider than variational
    ones."""

    spans = True

    @staticmethod
    def serves(target, family):
        """See `Proposer`."""
        return propagates(target, family) or may_be_quadratic(target, family)

    def way(self, target):
        """See `Proposer`."""
        if not may_be_quadratic(target, self.family):
            return "one component by expectation propagation"
        other = "expectation propagation"
        other = other if propagates(target, self.family) else "a search"
        return f"one component by a quadratic around the mode or {other}"

    def initial(self, target, settings):
        """See `Proposer`."""
        parts = None
        if may_be_quadratic(target, self.family):
            parts = quadratic_nodes(target)
        if parts is not None:
            gaussians = parts[0].gaussians
        elif propagates(target, self.family):
            # Sweeps that do not settle go between modes of heavy-tailed priors, and
            # span them; a lower bound would have one.
            gaussians = signed_rows(target, self.family).gaussians(
                target.scale[None] ** 2, bounded=target.log_concave
            )
        else:
            return super().initial(target, settings)
        components = components_of(target, self.family, *gaussians[1:])
        return Mixture.single(*components), Modes()

    def leaves_little(self, target, mixture, allowed):
        """See `Proposer`."""
        nats, told = shift_at(target, mixture.components[0])
        return told and _LEFT * nats <= allowed


def propagated_nodes(proposer, target, settings):
    """Components in closed form, their weights and the `ScaleNode` of each.

    The lower bounds of Gaussians miss the more evidence of classes the larger the
    scale, and weights by them cut large scales: they are those of expectation
    propagation. None where numbers overflow.
    """
    try:
        parts = _propagated_nodes(target, proposer.family)
    except np.linalg.LinAlgError:
        return None
    return mixture_of(parts, target, proposer.family)


def mixture_of(parts, target, family):
    """Components, weights and a `ScaleNode` each, of `ScaleNodes` of every kind."""
    share = softmax([part.log_evidence for part in parts])
    nodes, moments, weights = [], [], []
    for kind, part in enumerate(parts):
        some = np.flatnonzero(np.minimum(part.weights, share[kind]) >= _LIGHTEST)
        if not some.size:
            continue
        log_evidence, *given = part.given(some)
        values = zip(part.log_s[some], part.bounded[some], log_evidence, strict=True)
        nodes += [ScaleNode(float(s), kind, bool(b), float(z)) for s, b, z in values]
        moments.append(given)
        weights.append(share[kind] * part.weights[some])
    moments = map(np.concatenate, zip(*moments, strict=True))
    return components_of(target, family, *moments), np.concatenate(weights), nodes


def _propagated_nodes(target, family):
    """`ScaleNodes` of every kind of prior that limits leave time for, by expectation
    propagation."""
    rows, parts = signed_rows(target, family), [None]
    if type(rows) is SignedRows:
        found = anchored_nodes(rows, target, partial(_in_units, rows, target))
        if found is not None:
            return found
    for root in target.scale_prior.roots:
        if parts[1:] and target.ledger.budget.cuts():
            break
        parts.append(_over_scales(rows, target, root, parts[-1]))
    return parts[1:]


def _over_scales(rows, target, root, near):
    """`ScaleNodes` where the covariance of the coefficients has this root."""
    factor, own = target.scale_prior.factor, target.scale
    rows, turn, variances_at = _in_units(rows, target, root)
    nodes = scale_nodes(
        rows,
        variances_at,
        lambda log_s: factor.value_and_score(log_s)[0],
        np.log(factor.scale),
        near,
        _LIGHTEST,
        target.ledger.budget.cuts,
    )

    def given(which):
        return _turned(nodes.given(which), turn, own, rows.marginal)

    return nodes._replace(given=given)


def _turned(gaussians, turn, own, marginal):
    """`Gaussians` of the parameters, from those in the coordinates of `_in_units`."""
    log_evidence, means, covariances = gaussians
    if turn is None:
        squares = own**2 if marginal else np.outer(own, own)
        return Gaussians(log_evidence, means * own, covariances * squares)
    # Of every class, or pair of classes, in turn.
    by_class = -1, len(own) // len(turn), len(turn)
    rows_turned = turn @ covariances.reshape(*by_class, len(own))
    covariances = rows_turned.reshape(-1, *by_class[1:]) @ turn.T
    means = (means.reshape(by_class) @ turn.T).reshape(means.shape)
    return Gaussians(log_evidence, means, covariances.reshape(-1, len(own), len(own)))


def _in_units(rows, target, root):
    """Rows in coordinates in which the prior is a standard normal one at s = 1.

    With them the matrix that leads back, None where it is diagonal, and variances of
    the parameters at values of ln s.
    """
    own = target.scale
    shared = np.resize(target.scale_prior.shared, len(own))
    turn, width = None, rows.X.shape[1]
    if root is None:
        rows = rows.in_units(own)
    else:
        # Of the columns, and then of the parameters of all classes.
        turn, of_columns = np.diag(own[:width]), shared[:width]
        turn[np.ix_(of_columns, of_columns)] = own[:width][of_columns, None] * root
        rows = replace(rows, X=rows.X @ turn)
    return (
        rows, turn, lambda log_s: np.where(shared, np.exp(2.0 * log_s)[:, None], 1.0)
    )  # fmt: skip


def left_out(target, family):
    """Log probabilities (n_rows, K) of rows' classes by the others, and weights.

    The row's own class is the first. Every scale counts by its evidence without it.
    """
    rows, prior = signed_rows(target, family), target.scale_prior
    row_weights = rows.weights / target.temperature
    if prior is None:
        fitted = rows.fitted(target.scale[None] ** 2, bounded=target.log_concave)
        return rows.left_out(*fitted)[0], row_weights
    logs, weights, near = [], [], None
    for root in prior.roots:
        near = _over_scales(rows, target, root, near)
        here, _, variances_at = _in_units(rows, target, root)
        logs.append(
            here.left_out(here.predictors(variances_at(near.log_s)), near.sites)
        )
        weights.append(np.log(near.weights) + near.log_evidence)
    logs = np.concatenate(logs)
    weights = np.concatenate(weights)[:, None] - logs[:, :, 0]
    weights -= logsumexp(weights, axis=0)
    return logsumexp(weights[..., None] + logs, axis=0), row_weights
