"""First mixtures of logistic regressions, by expectation propagation in closed form."""

from dataclasses import dataclass, replace
from itertools import compress

import numpy as np
from scipy import sparse

from skboost.approximation import Mixture
from skboost.expectation_propagation import (
    MixedRows,
    SignedRows,
    laplace_mixture,
    scale_nodes,
    student_t_mixture,
)
from skboost.families import Component
from skboost.modes import Modes
from skboost.proposals._density import DensityProposer
from skboost.proposals._family import FamilyProposer
from skboost.targets import (
    GLMTarget,
    LaplacePrior,
    Logistic,
    NormalPrior,
    ScaleNode,
    StudentTPrior,
)

# Entries of the matrix of rows up to which all of it is taken at once.
_MOST_ENTRIES = 1_100_000
# Probability of a node among those of its kind, and of the kind, below which there is
# no component.
_LIGHTEST = 2e-3


def propagates(target, family):
    """Whether a first mixture can be found by expectation propagation.

    Two classes, a normal prior, full Gaussian components, and rows that fit.
    """
    if not (isinstance(target, GLMTarget) and isinstance(target.likelihood, Logistic)):
        return False
    prior = target.prior if target.scale_prior is None else target.prior.coef
    return has_room(len(target.rows), target.dim, family) and type(prior) in _MIXTURES


def has_room(n_rows, dim, family):
    """Whether rows fit, and components of a family are full Gaussians."""
    full = family.exact_expectations and family.full_covariance
    return n_rows * dim <= _MOST_ENTRIES and full


# Priors that are mixtures of normal ones, which are a mixture of one.
_MIXTURES = {
    NormalPrior: None,
    LaplacePrior: lambda prior: laplace_mixture(),
    StudentTPrior: lambda prior: student_t_mixture(prior.checked().df),
}


def signed_rows(target):
    """The rows of a logistic regression with the signs of their classes."""
    target.ledger.spend()
    X, y, weight = map(np.concatenate, zip(*target.rows.map(_arrays), strict=True))
    if target.intercept:
        X = np.column_stack([X, np.ones(len(X))])
    X = X * np.where(y > 0, 1.0, -1.0)[:, None]
    prior = target.prior if target.scale_prior is None else target.prior.coef
    mixture = _MIXTURES[type(prior)]
    if mixture is None:
        return SignedRows(X, target.temperature * weight)
    return MixedRows(X, target.temperature * weight, mixture(prior))


def _arrays(table):
    """Rows of a table, dense, with their responses and weights."""
    block = table.block(slice(0, len(table)))
    X = block.X.toarray() if sparse.issparse(block.X) else block.X
    return X, block.y, np.broadcast_to(block.weight, len(block))


def _components(family, gaussians):
    moments = zip(gaussians.means, map(_proper, gaussians.covariances), strict=True)
    return tuple(Component(family, family.from_moments(*pair)) for pair in moments)


def _proper(covariance):
    """A covariance that has a root: rounding takes it from columns all but constant."""
    added, width = 0.0, np.diag(np.diag(covariance))
    while True:
        try:
            np.linalg.cholesky(covariance + added * width)
        except np.linalg.LinAlgError:
            added = max(1e-15, 4.0 * added)
        else:
            return covariance + added * width


@dataclass(frozen=True)
class PropagatedProposer(DensityProposer):
    """Begins with the Gaussian of expectation propagation, which is wider than others.

    It has the posterior's moments where the variational one is too narrow, and is the
    better base of corrections.
    """

    def initial(self, target, settings):
        # Sweeps that do not settle go between modes of heavy-tailed priors, and span
        # them; a lower bound would have one.
        gaussians = signed_rows(target).gaussians(
            target.scale[None] ** 2, bounded=target.log_concave
        )
        return Mixture.single(*_components(self.family, gaussians)), Modes()


@dataclass(frozen=True)
class EvidenceProposer(FamilyProposer):
    """Begins with a Gaussian for every scale, weighted by the evidence of the scale.

    The lower bounds of Gaussians miss the more evidence the larger the scale, and
    weights by them cut large scales.
    """

    complete = (
        "Converged: there is a component for every scale that has mass, weighted by "
        'its evidence. A number for tol in place of "auto" asks for more components '
        "where their shape misses something."
    )

    def initial(self, target, settings):
        """The mixture over scales, and `ScaleNode`s of components in place of modes."""
        rows, prior = signed_rows(target), target.scale_prior
        parts = [None]
        for root in prior.roots:
            parts.append(_over_scales(rows, target, root, parts[-1]))
        parts.pop(0)
        share = np.array([part.log_evidence for part in parts])
        share = np.exp(share - share.max())
        share /= share.sum()
        nodes, components, weights = [], (), []
        for kind, part in enumerate(parts):
            nodes += [ScaleNode(float(log_s), kind) for log_s in part.log_s]
            components += _components(self.family, part.gaussians)
            light = np.minimum(part.weights, share[kind]) < _LIGHTEST
            weights.append(np.where(light, 0.0, share[kind] * part.weights))
        weights = np.concatenate(weights)
        most = min(settings.max_components or len(nodes), np.count_nonzero(weights))
        kept = weights >= np.sort(weights)[-most]
        mixture = Mixture(components, weights / weights.sum()).keep(kept)
        return mixture, list(compress(nodes, kept))


def _over_scales(rows, target, root, near):
    """`ScaleNodes` where the covariance of the coefficients has this root.

    The rows are in coordinates in which the prior is a standard normal one at s = 1.
    """
    factor, own = target.scale_prior.factor, target.scale
    shared = np.resize(target.scale_prior.shared, len(own))
    turn = np.diag(own)
    if root is not None:
        turn[np.ix_(shared, shared)] = own[shared][:, None] * root
    nodes = scale_nodes(
        replace(rows, X=rows.X @ turn if root is not None else rows.X * own),
        lambda log_s: np.where(shared, np.exp(2.0 * log_s)[:, None], 1.0),
        lambda log_s: factor.value_and_score(log_s)[0],
        np.log(factor.scale),
        near,
    )
    means, covariances = nodes.gaussians.means, nodes.gaussians.covariances
    gaussians = nodes.gaussians._replace(
        means=means @ turn.T, covariances=turn @ covariances @ turn.T
    )
    return nodes._replace(gaussians=gaussians)
