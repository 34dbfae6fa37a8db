"""Factorisations of matrices and topics of documents, with posteriors."""

from skboost.decomposition._boosted_matrix_factorization import (
    BoostedMatrixFactorization,
)
from skboost.decomposition._posterior import MatrixFactorizationPosterior
from skboost.decomposition._ratings import RatingRegressor
from skboost.decomposition._svi_lda import SVILatentDirichletAllocation
from skboost.decomposition._svi_matrix_factorization import SVIMatrixFactorization

__all__ = [
    "BoostedMatrixFactorization",
    "MatrixFactorizationPosterior",
    "RatingRegressor",
    "SVILatentDirichletAllocation",
    "SVIMatrixFactorization",
]
