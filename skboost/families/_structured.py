"""Gaussians by the structure of their covariance, as users choose it."""

from functools import partial

from sklearn.base import BaseEstimator

from skboost.families._diagonal import DiagonalGaussian
from skboost.families._full import FullGaussian
from skboost.families._low_rank import LowRankGaussian

# Up to here a full covariance (some 45,000 numbers per component) is affordable.
MAX_FULL_DIM = 300


def gaussian_of(family, **structures):
    """What the name of a family's covariance makes, of the ways that it may have."""
    name = family.covariance
    if not (isinstance(name, str) and name in structures):
        raise ValueError(
            f"covariance must be one of {list(structures)} for a "
            f"{type(family).__name__} family; got {name!r}."
        )
    return structures[name]()


class Gaussian(BaseEstimator):
    """Gaussian densities, by the structure of their covariance.

    Stands for `FullGaussian`, `DiagonalGaussian` or `LowRankGaussian`, the families
    that components have, wherever a family is chosen: so searches can set `covariance`.

    Parameters
    ----------
    covariance : {"full", "diag", "low_rank"}, default="full"
        Structure of the covariance: lower Cholesky factor, independent
        coordinates, or diagonal plus low rank.
    rank : int, default=None
        Columns of the low-rank factor, at most the dimension. None lets a fit choose
        it for each component, which grows while its ELBO rises; a component made
        otherwise, and a root under ``objective="hellinger"``, has ``min(10, dim)``.
        Used by ``covariance="low_rank"`` only.

    Raises
    ------
    ValueError
        When first used, if `covariance` or `rank` is none of these.

    Examples
    --------
    >>> from skboost import BoostedBayesianPoissonRegression
    >>> from skboost.families import Gaussian
    >>> model = BoostedBayesianPoissonRegression(family=Gaussian("low_rank", rank=5))
    """

    def __init__(self, covariance="full", rank=None):
        self.covariance = covariance
        self.rank = rank

    def __init_subclass__(cls):
        raise TypeError(
            "Gaussian only stands for other families. Derive one of your own from "
            "FullGaussian, DiagonalGaussian or LowRankGaussian."
        )

    def variants(self):
        """The family that it stands for, alone in a tuple."""
        low_rank = partial(LowRankGaussian, self.rank)
        gaussian = gaussian_of(
            self, full=FullGaussian, diag=DiagonalGaussian, low_rank=low_rank
        )
        return (gaussian,)

    def n_params(self, dim):
        """As `VariationalFamily.n_params`."""
        return self.variants()[0].n_params(dim)

    def from_moments(self, mean, covariance):
        """As `VariationalFamily.from_moments`."""
        return self.variants()[0].from_moments(mean, covariance)
