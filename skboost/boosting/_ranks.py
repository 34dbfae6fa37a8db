"""Low-rank components of different ranks beside each other."""

import numpy as np

from skboost.families import Gaussian


def leaves_rank_open(family):
    """Whether components of the family take the rank that the target asks for."""
    return getattr(family, "covariance", None) == "low_rank" and family.rank is None


def with_rank(family):
    """The family, its rank no longer open: every root has the same."""
    if not leaves_rank_open(family):
        return family
    return Gaussian("low_rank", family.default_rank)


def widest(family, mixture):
    """The family, its rank no longer open: the largest in a mixture.

    Parameters
    ----------
    family : VariationalFamily
    mixture : Mixture

    Returns
    -------
    VariationalFamily
    """
    if not leaves_rank_open(family):
        return family
    ranks = [_rank(params, mixture.dim) for _, params in mixture.components]
    return Gaussian("low_rank", max(ranks))


def in_family(family, params, dim):
    """A component in the layout of a family whose rank may be another.

    Columns that are lacking are zero; of too many the longest are kept, and the
    variances of the others go to the diagonal.

    Parameters
    ----------
    family : VariationalFamily
    params : ndarray of shape (n_params,)
    dim : int

    Returns
    -------
    ndarray of shape (family.n_params(dim),)
    """
    if params.size == family.n_params(dim):
        return params
    owner = Gaussian("low_rank", _rank(params, dim))
    mean, variance, factor = owner.structure(params)
    left, lengths, _ = np.linalg.svd(
        factor / np.sqrt(variance)[:, None], full_matrices=False
    )
    columns = np.sqrt(variance)[:, None] * left * lengths
    kept, lost = columns[:, : family.rank], columns[:, family.rank :]
    lacking = np.zeros((dim, family.rank - kept.shape[1]))
    return family.from_structure(
        mean, variance + np.square(lost).sum(axis=1), np.hstack([kept, lacking])
    )[1]


def _rank(params, dim):
    return params.size // dim - 2
