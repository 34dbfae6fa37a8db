"""First mixtures of logistic regressions, by expectation propagation in closed form."""

from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np
from scipy import sparse
from scipy.special import logsumexp

from skboost.approximation import Mixture
from skboost.expectation_propagation import (
    ClassRows,
    CountRows,
    Gaussians,
    MixedRows,
    SignedRows,
    WideRows,
    horseshoe_mixture,
    laplace_mixture,
    scale_nodes,
    student_t_mixture,
)
from skboost.families import MAX_FULL_DIM, Component, FullGaussian
from skboost.modes import Modes
from skboost.proposals._density import DensityProposer, FamilyProposer
from skboost.proposals._quadratic import quadratic_nodes
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
    softmax_nodes,
)

# Entries of the matrix of rows up to which all of it is taken at once.
_MOST_ENTRIES = 1_100_000
# Of several classes: how many, parameters of all of them together and these times rows
# times classes, beyond which a fit takes more than some seconds; nodes by which the
# evidence of a row is corrected.
_MOST_CLASSES, _MOST_PARAMETERS, _MOST_PRODUCTS, _N_NODES = 20, 1000, 1_500_000, 64
# Rows or columns, whichever are fewer, up to which matrices of that size cost less than
# a search for low-rank covariances: a second or two for 41 on 500 rows of 400 columns.
_MOST_SWEPT = 600
# Probability of a node among those of its kind, and of the kind, below which there is
# no component.
_LIGHTEST = 2e-3
# Half the squared shift of the mean, in standard deviations, up to which no draws are
# asked whether much remains: with orbits, .02 nats were left at most.
_LITTLE = 1.0


def propagates(target, family):
    """Whether a first mixture can be found by expectation propagation.

    Two classes, a prior that is a mixture of normal ones, full Gaussian components, and
    rows that fit; or hundreds of columns, and a scale that is learned. Of more
    classes the prior is a normal one that all of them have. Of counts the fits are
    variational, under a normal prior whose scale is learned.
    """
    if not isinstance(target, GLMTarget):
        return False
    if isinstance(target.scale_prior, ColumnScale):
        return False
    prior = target.prior if target.scale_prior is None else target.prior.coef
    size = len(target.rows), target.dim, family
    if isinstance(target.likelihood, Multinomial):
        by_class = target.scale.reshape(target.likelihood.n_outputs, -1)
        same = type(prior) is NormalPrior and (by_class == by_class[0]).all()
        return same and has_room_for_classes(*size, target.likelihood.n_outputs)
    learns, normal = target.scale_prior is not None, type(prior) is NormalPrior
    wide = learns and type(prior) in (NormalPrior, HorseshoePrior) and is_wide(*size)
    if isinstance(target.likelihood, Poisson):
        return normal and (wide or (learns and has_room(*size)))
    logistic, known = isinstance(target.likelihood, Logistic), type(prior) in _MIXTURES
    return logistic and (wide or (known and has_room(*size)))


def has_room(n_rows, dim, family):
    """Whether rows fit, and components of a family are full Gaussians."""
    full = family.exact_expectations and family.full_covariance
    return n_rows * dim <= _MOST_ENTRIES and full


def has_room_for_classes(n_rows, dim, family, n_classes):
    """The same of several classes, whose parameters together are `dim`."""
    full = family.full_covariance or (family.low_rank and dim > MAX_FULL_DIM)
    small = n_classes <= _MOST_CLASSES and dim <= _MOST_PARAMETERS
    fits = n_rows * dim * n_classes <= _MOST_PRODUCTS
    return family.exact_expectations and full and small and fits


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
    """The rows of a regression with classes, signs of two of them, or counts, about
    the centre.

    They give the moments for which a family has room.
    """
    target.ledger.spend()
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
        return CountRows(X, weight, y, family.low_rank, offset=offset)
    turned = y <= 0
    X[turned], offset[turned] = -X[turned], -offset[turned]
    prior = target.prior if target.scale_prior is None else target.prior.coef
    mixture, weight = _MIXTURES[type(prior)], target.temperature * weight
    if mixture is not None:
        return MixedRows(X, weight, mixture(prior), family.low_rank, offset=offset)
    return (WideRows if family.low_rank else SignedRows)(X, weight, offset=offset)


def _arrays(table):
    """Rows of a table, dense, with their responses, weights and offsets."""
    block = table.block(slice(0, len(table)))
    X = block.X.toarray() if sparse.issparse(block.X) else block.X
    offset = np.zeros(len(block)) if block.offset is None else block.offset
    return X, block.y, np.broadcast_to(block.weight, len(block)), offset


def _components(target, family, gaussians):
    """Of parameters, from `Gaussians` of those about the centre."""
    means, covariances = target.centring.gaussians_back(*gaussians[1:])
    if covariances.ndim == 3:
        family = family if family.full_covariance else FullGaussian()
        covariances = map(_proper, covariances)
    moments = zip(means, covariances, strict=True)
    return tuple(Component(family, family.from_moments(*pair)) for pair in moments)


def _proper(covariance):
    """A covariance that has a root: rounding takes it from columns all but constant."""
    width = np.diag(np.diag(covariance))
    for added in (0.0, *np.geomspace(1e-15, 1.0, 26)):
        with suppress(np.linalg.LinAlgError):
            np.linalg.cholesky(covariance + added * width)
            return covariance + added * width
    raise ValueError(
        "X must have columns of sizes that one matrix can hold; this one's covariance "
        f"of the coefficients has variances from {np.diag(covariance).min():.3g} to "
        f"{np.diag(covariance).max():.3g}, and rounding leaves it no root. Standardise "
        "the columns, or take a smaller prior_scale or a temperature nearer to 1."
    )


@dataclass(frozen=True)
class PropagatedProposer(DensityProposer):
    """Begins with the Gaussian of expectation propagation, which is wider than others.

    It has the posterior's moments where the variational one is too narrow, and is the
    better base of corrections.
    """

    def initial(self, target, settings):
        # Sweeps that do not settle go between modes of heavy-tailed priors, and span
        # them; a lower bound would have one.
        gaussians = signed_rows(target, self.family).gaussians(
            target.scale[None] ** 2, bounded=target.log_concave
        )
        return Mixture.single(*_components(target, self.family, gaussians)), Modes()


class EvidenceProposer(FamilyProposer):
    """Begins with components for every scale, weighted by the evidence of the scale.

    A subclass gives ``at_scales(target, settings)``: the mixture, and the `ScaleNode`
    of every component.
    """

    # Whether components of a low-rank family have variances alone.
    marginal = False

    def initial(self, target, settings):
        """The mixture over scales, each of which has one mode."""
        return self.at_scales(target, settings)[0], Modes()

    def leaves_little(self, target, mixture):
        """Whether a closed form says that components with orbits leave little.

        Half the squared shift of the mean, in standard deviations, that third
        derivatives ask for: of the heaviest component, under a normal prior.
        """
        component = mixture.components[int(mixture.weights.argmax())]
        plain = type(target) is GLMTarget and target.likelihood.n_outputs == 1
        normal = type(target.scale_prior.coef) is NormalPrior
        if not (plain and normal and isinstance(component.family, FullGaussian)):
            return False
        mean, covariance = component.moments()
        about = target.centring.about
        factor = about(np.linalg.cholesky(covariance).T).T
        pull = target.skewness(about(mean), factor)
        return bool(0.5 * np.sum((factor.T @ pull) ** 2) <= _LITTLE)

    def complete_with(self, nodes, mixture):
        """That there is a component for every scale, and what is known of it."""
        bounded = np.array([node.bounded for node in nodes]) @ mixture.weights
        marginal = self.marginal and mixture.components[0].family.low_rank
        told = [
            "Converged: there is a component for every scale that has mass, weighted "
            "by its evidence.",
            f"For {bounded:.0%} of the probability of scales the component is the "
            "variational one, and its lower bound stands for the evidence."
            if bounded > _LIGHTEST
            else "",
            "Of so many parameters components have the variances, and no correlations."
            if marginal
            else "",
            'A number for tol in place of "auto" asks for more components where their '
            "shape misses something.",
        ]
        return " ".join(filter(None, told))


@dataclass(frozen=True)
class PropagatedScales(EvidenceProposer):
    """Begins with a Gaussian in closed form for every scale.

    The lower bounds of Gaussians miss the more evidence of classes the larger the
    scale, and weights by them cut large scales: they are those of expectation
    propagation.
    """

    marginal = True

    def at_scales(self, target, settings):
        """See `EvidenceProposer`."""
        parts = quadratic_nodes(target) or _propagated_nodes(target, self.family)
        return mixture_of(parts, target, self.family, settings)


def mixture_of(parts, target, family, settings):
    """The mixture of `Nodes` of every kind of prior, and the `ScaleNode` of each."""
    share = np.array([part.log_evidence for part in parts])
    share = np.exp(share - share.max())
    share /= share.sum()
    nodes, components, weights = [], (), []
    for kind, part in enumerate(parts):
        values = zip(part.log_s, part.bounded, strict=True)
        nodes += [ScaleNode(float(s), kind, bool(low)) for s, low in values]
        components += _components(target, family, part.gaussians)
        light = np.minimum(part.weights, share[kind]) < _LIGHTEST
        weights.append(np.where(light, 0.0, share[kind] * part.weights))
    return heaviest(components, np.concatenate(weights), nodes, settings)


def _propagated_nodes(target, family):
    """`ScaleNodes` of every kind of prior, by expectation propagation."""
    rows, parts = signed_rows(target, family), [None]
    for root in target.scale_prior.roots:
        parts.append(_over_scales(rows, target, root, parts[-1]))
    return parts[1:]


def heaviest(components, weights, nodes, settings):
    """The mixture of those components that have a weight, and their nodes."""
    most = min(settings.max_components or len(nodes), np.count_nonzero(weights))
    kept = weights >= np.sort(weights)[-most]
    mixture = Mixture(tuple(components), weights / weights.sum()).keep(kept)
    return mixture, list(compress(nodes, kept))


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
    )
    log_evidence, means, covariances = nodes.gaussians
    if turn is None:
        squares = own**2 if rows.marginal else np.outer(own, own)
        back = means * own, covariances * squares
    else:
        # Of every class, or pair of classes, in turn.
        by_class = -1, len(own) // len(turn), len(turn)
        rows_turned = turn @ covariances.reshape(*by_class, len(own))
        covariances = rows_turned.reshape(-1, *by_class[1:]) @ turn.T
        back = (
            (means.reshape(by_class) @ turn.T).reshape(means.shape),
            covariances.reshape(-1, len(own), len(own)),
        )
    return nodes._replace(gaussians=Gaussians(log_evidence, *back))


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
