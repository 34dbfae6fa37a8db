"""Base families of the mixture components."""

from skboost.families._base import VariationalFamily
from skboost.families._component import Component, Evaluation, whitening_by
from skboost.families._component import resolved as _resolved
from skboost.families._diagonal import DiagonalGaussian
from skboost.families._full import FullGaussian
from skboost.families._heavy_tails import Laplace, StudentT
from skboost.families._low_rank import LowRankGaussian, rank_of
from skboost.families._moments import linear_moments, squared
from skboost.families._structured import MAX_FULL_DIM, Gaussian

# By the names that users give: the family for a number of parameters. A full covariance
# is what a component has while it is affordable.
FAMILIES = {
    "gaussian": lambda dim: (
        FullGaussian() if dim <= MAX_FULL_DIM else LowRankGaussian()
    ),
    "gaussian-full": lambda dim: FullGaussian(),
    "gaussian-diag": lambda dim: DiagonalGaussian(),
    "gaussian-low-rank": lambda dim: LowRankGaussian(),
    "laplace": lambda dim: Laplace(),
    "student_t": lambda dim: StudentT("full" if dim <= MAX_FULL_DIM else "diag"),
}


def as_family(family, dim=1):
    """The family that a name or an object stands for; a ValueError for unknown
    names."""
    if not isinstance(family, VariationalFamily | Gaussian):
        if not isinstance(family, str) or family not in FAMILIES:
            raise ValueError(
                f"family must be one of {list(FAMILIES)} or a VariationalFamily "
                f"object; got {family!r}."
            )
        return FAMILIES[family](dim)
    return _resolved(family)


__all__ = [
    "FAMILIES",
    "MAX_FULL_DIM",
    "Component",
    "DiagonalGaussian",
    "Evaluation",
    "FullGaussian",
    "Gaussian",
    "Laplace",
    "LowRankGaussian",
    "StudentT",
    "VariationalFamily",
    "as_family",
    "linear_moments",
    "rank_of",
    "squared",
    "whitening_by",
]
