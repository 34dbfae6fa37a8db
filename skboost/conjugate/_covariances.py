"""Shapes of the clusters' covariances, by their public names."""

from skboost.conjugate._matrix_shapes import Full, Tied
from skboost.conjugate._scalar_shapes import Diag, Spherical

COVARIANCES = {shape.name: shape for shape in (Full(), Tied(), Diag(), Spherical())}
