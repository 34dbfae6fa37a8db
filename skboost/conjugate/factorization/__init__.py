"""The matrix factorisation: Gaussian factors, coordinate ascent, draws as a family."""

from skboost.conjugate.factorization._ascent import balanced, factor_round, transformed
from skboost.conjugate.factorization._factors import WeightedEntries
from skboost.conjugate.factorization._model import GammaPrecisions, worth_one
