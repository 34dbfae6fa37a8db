"""Conjugate exponential-family models: natural parameters in and out.

Three models, one folder each, on the steps and layouts that they share.
"""

from skboost._entries import Entries
from skboost.conjugate._draws import DrawStream, Layout
from skboost.conjugate._natural import (
    Cone,
    Expectation,
    Optimum,
    combine,
    inside,
    largest_step,
    natural_step,
    prior_of,
    scaled,
)
from skboost.conjugate.factorization._ascent import (
    annealed_factors,
    factor_ascent,
    shaken_factors,
    turned_towards,
)
from skboost.conjugate.factorization._factors import ObservedEntries
from skboost.conjugate.factorization._model import (
    MatrixFactorizationModel,
    predicted_entries,
    predicted_rows,
)
from skboost.conjugate.factorization._target import FactorFamily, FactorTarget
from skboost.conjugate.gaussian_mixture._ascent import (
    INITS,
    STARTS,
    aligned,
    coordinate_ascent,
    responsibilities_of,
    split_and_merge,
    start,
    sweeps,
    with_louis_widths,
)
from skboost.conjugate.gaussian_mixture._covariances import COVARIANCES
from skboost.conjugate.gaussian_mixture._densities import Rows
from skboost.conjugate.gaussian_mixture._family import (
    ConjugateFamily,
    ConjugateTarget,
    log_parts,
)
from skboost.conjugate.gaussian_mixture._gibbs import gibbs_naturals, gibbs_sweep
from skboost.conjugate.gaussian_mixture._model import GaussianMixtureModel
from skboost.conjugate.gaussian_mixture._search import explanations
from skboost.conjugate.gaussian_mixture._shared import SharedMixtureModel, SharedPrior
from skboost.conjugate.topics._model import Documents, TopicModel
