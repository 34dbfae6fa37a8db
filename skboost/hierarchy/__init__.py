"""Hierarchical models: group effects integrated out given coefficients and scales."""

from skboost.hierarchy._covariances import Covariances
from skboost.hierarchy._crossed_normal import CrossedNormalMarginal
from skboost.hierarchy._integrated_normal import IntegratedNormalMarginal
from skboost.hierarchy._integrated_quadrature import (
    IntegratedNestedMarginal,
    IntegratedQuadratureMarginal,
)
from skboost.hierarchy._joint import with_coefficients
from skboost.hierarchy._laplace import LaplaceMarginal, error_of_trend
from skboost.hierarchy._marginal import UngroupedMarginal
from skboost.hierarchy._nested_quadrature import NestedQuadratureMarginal
from skboost.hierarchy._normal import NormalMarginal
from skboost.hierarchy._quadrature import QuadratureMarginal
from skboost.hierarchy._rows import Factor, GroupedRows
from skboost.hierarchy._target import HierarchicalTarget, marginal_of
