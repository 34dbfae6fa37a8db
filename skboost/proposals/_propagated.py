"""First mixtures of logistic regressions, by expectation propagation in closed form."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from skboost.approximation import Mixture
from skboost.expectation_propagation import SignedRows, scale_nodes
from skboost.families import Component
from skboost.modes import Modes
from skboost.proposals._density import DensityProposer
from skboost.proposals._family import FamilyProposer
from skboost.targets import GLMTarget, Logistic, NormalPrior

# Entries of the matrix of rows up to which all of it is taken at once.
_MOST_ENTRIES = 1_100_000


def propagates(target, family):
    """Whether a first mixture can be found by expectation propagation.

    Two classes, a normal prior, full Gaussian components, and rows that fit.
    """
    if not (isinstance(target, GLMTarget) and isinstance(target.likelihood, Logistic)):
        return False
    prior = target.prior if target.scale_prior is None else target.prior.coef
    fits = len(target.rows) * target.dim <= _MOST_ENTRIES
    full = family.exact_expectations and family.full_covariance
    return fits and full and type(prior) is NormalPrior


def signed_rows(target):
    """The rows of a logistic regression with the signs of their classes."""
    target.ledger.spend()
    X, y, weight = map(np.concatenate, zip(*target.rows.map(_arrays), strict=True))
    if target.intercept:
        X = np.column_stack([X, np.ones(len(X))])
    return SignedRows(
        X * np.where(y > 0, 1.0, -1.0)[:, None], target.temperature * weight
    )


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
        gaussians = signed_rows(target).gaussians(target.scale[None] ** 2)
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
        """The mixture over scales, and ln s of its components in place of modes."""
        prior = target.scale_prior

        def variances_at(log_s):
            scales = [prior.given(target.scale, s)[1] for s in np.exp(log_s)]
            return np.array(scales) ** 2

        factor = prior.factor
        nodes = scale_nodes(
            signed_rows(target),
            variances_at,
            lambda log_s: factor.value_and_score(log_s)[0],
            np.log(factor.scale),
        )
        most = min(settings.max_components or len(nodes.log_s), len(nodes.log_s))
        kept = nodes.weights >= np.sort(nodes.weights)[-most]
        mixture = Mixture(_components(self.family, nodes.gaussians), nodes.weights)
        return mixture.keep(kept), nodes.log_s[kept]
