"""Cheap stand-ins for log densities that are dear, fitted to what is known of them."""

from skboost.surrogates._evaluations import (
    Evaluations,
    judged_draws,
    laplace,
    log_proposal,
    remaining_of,
    widened,
)
from skboost.surrogates._lattice import Lattice
from skboost.surrogates._surrogate import Surrogate, fit_surrogate, least_known
from skboost.surrogates._weighted import Gaussians, Weighed
