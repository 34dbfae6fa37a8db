"""Families whose users choose the structure of the covariance by a parameter."""

from skboost.families._base import VariationalFamily
from skboost.families._diagonal import DiagonalGaussian
from skboost.families._full import FullGaussian
from skboost.families._gaussian import GaussianFamily
from skboost.families._low_rank import LowRankGaussian

# Up to here a full covariance (some 45,000 numbers per component) is affordable.
MAX_FULL_DIM = 300


class Structured(VariationalFamily):
    """Families whose parameters are those of the Gaussian that `gaussian` is."""

    sign_symmetric = True
    # By the names that `covariance` may have, what makes the Gaussian of a family.
    structures = {
        "full": lambda family: FullGaussian(),
        "diag": lambda family: DiagonalGaussian(),
    }

    @property
    def gaussian(self):
        """The Gaussian family of the same covariance structure."""
        chosen = self.covariance
        if not (isinstance(chosen, str) and chosen in self.structures):
            raise ValueError(
                f"covariance must be one of {list(self.structures)} for a {self.title} "
                f"family; got {chosen!r}."
            )
        return self.structures[chosen](self)

    @property
    def full_covariance(self):
        return self.gaussian.full_covariance

    def n_params(self, dim):
        return self.gaussian.n_params(dim)

    def dim_of(self, params):
        return self.gaussian.dim_of(params)

    def scale_mask(self, dim):
        return self.gaussian.scale_mask(dim)

    def entropy_gradient(self, params):
        return self.gaussian.entropy_gradient(params)

    def structure(self, params):
        return self.gaussian.structure(params)

    def spread(self, params):
        return self.gaussian.structure(params)

    def marginal(self, params, indices):
        return self.gaussian.marginal(params, indices)

    def widen(self, params, width):
        return self.gaussian.widen(params, width)


class Gaussian(Structured, GaussianFamily):
    """Gaussian densities.

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

    Notes
    -----
    Components of a fit are `FullGaussian`, `DiagonalGaussian` or `LowRankGaussian`.
    """

    title = "Gaussian"
    structures = Structured.structures | {
        "low_rank": lambda family: LowRankGaussian(family.rank)
    }

    def __init__(self, covariance="full", rank=None):
        self.covariance = covariance
        self.rank = rank

    @property
    def low_rank(self):
        return self.gaussian.low_rank

    @property
    def rank_is_open(self):
        return self.gaussian.rank_is_open

    def variants(self):
        # A class that a user derives may have methods of its own.
        return (self.gaussian,) if type(self) is Gaussian else (self,)

    def with_rank(self, rank=None):
        if not self.rank_is_open:
            return self
        return type(self)("low_rank", self.gaussian.with_rank(rank).rank)

    def convert(self, params, dim):
        return self.gaussian.convert(params, dim)

    def _balanced(self, eps, dim):
        return self.gaussian._balanced(eps, dim)

    def base_dim(self, dim):
        return self.gaussian.base_dim(dim)

    def transport(self, params, eps):
        return self.gaussian.transport(params, eps)

    def pull_transport(self, params, eps, cotangent):
        return self.gaussian.pull_transport(params, eps, cotangent)

    def at(self, params, theta):
        return self.gaussian.at(params, theta)

    def entropy(self, params):
        return self.gaussian.entropy(params)

    def from_moments(self, mean, covariance):
        return self.gaussian.from_moments(mean, covariance)

    def move(self, params, x):
        return self.gaussian.move(params, x)

    def pull_move(self, params, x, gradient):
        return self.gaussian.pull_move(params, x, gradient)

    def pull_structure(self, params, g_mean, g_variance, g_factor):
        return self.gaussian.pull_structure(params, g_mean, g_variance, g_factor)

    def root_product(self, a, b):
        return self.gaussian.root_product(a, b)

    def _log_affinity(self, a, b):
        return self.gaussian._log_affinity(a, b)
