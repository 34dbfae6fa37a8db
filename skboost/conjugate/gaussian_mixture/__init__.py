"""The Gaussian mixture: weights, clusters, coordinate ascent, draws as a family."""

from skboost.conjugate.gaussian_mixture._densities import (
    JointStudentTs,
    SeparateStudentTs,
    log_densities_at_draws,
)
from skboost.conjugate.gaussian_mixture._family import log_likelihood, log_parts
from skboost.conjugate.gaussian_mixture._model import CLUSTER_DISTRIBUTIONS
from skboost.conjugate.gaussian_mixture._weights import (
    DirichletWeights,
    StickBreakingWeights,
)
from skboost.conjugate.gaussian_mixture._wishart import Wishart
