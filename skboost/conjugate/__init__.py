"""Conjugate exponential-family models: natural parameters in and out.

Three models, one folder each, on the steps and layouts that they share.
"""

import sys

from skboost.conjugate._draws import DrawStream
from skboost.conjugate._natural import (
    Expectation,
    combine,
    inside,
    natural_step,
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
from skboost.conjugate.factorization._target import SIDES, FactorFamily, FactorTarget
from skboost.conjugate.gaussian_mixture import _covariances, _model, _weights, _wishart
from skboost.conjugate.gaussian_mixture._ascent import (
    INITS,
    aligned,
    annealed,
    coordinate_ascent,
    responsibilities_of,
    split_and_merge,
    start,
    with_louis_widths,
)
from skboost.conjugate.gaussian_mixture._covariances import COVARIANCES
from skboost.conjugate.gaussian_mixture._family import (
    ConjugateFamily,
    ConjugateTarget,
    log_parts,
)
from skboost.conjugate.gaussian_mixture._model import GaussianMixtureModel
from skboost.conjugate.topics._model import Documents, TopicModel

# Pickles of 0.1.0 name their modules before their version: these names let a reader get
# as far as the version, and say that it is another one.
for _name, _module in {
    "_dirichlet": _weights,
    "_gaussian_mixture": _model,
    "_matrix_shapes": _covariances,
    "_normal_wishart": _wishart,
}.items():
    sys.modules[f"{__name__}.{_name}"] = _module

__all__ = [
    "COVARIANCES",
    "ConjugateFamily",
    "ConjugateTarget",
    "Documents",
    "DrawStream",
    "Expectation",
    "FactorFamily",
    "FactorTarget",
    "GaussianMixtureModel",
    "INITS",
    "MatrixFactorizationModel",
    "ObservedEntries",
    "SIDES",
    "TopicModel",
    "aligned",
    "annealed",
    "annealed_factors",
    "combine",
    "coordinate_ascent",
    "factor_ascent",
    "inside",
    "log_parts",
    "natural_step",
    "predicted_entries",
    "predicted_rows",
    "responsibilities_of",
    "scaled",
    "shaken_factors",
    "split_and_merge",
    "start",
    "turned_towards",
    "with_louis_widths",
]
