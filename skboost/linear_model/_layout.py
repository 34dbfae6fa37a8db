"""Which coordinate of a posterior is what: names, and coefficients by output."""

from dataclasses import dataclass
from itertools import count

import numpy as np


@dataclass(frozen=True)
class Layout:
    """Coefficients and intercept of one output after the other, then `further` ones.

    `features` are the names of those with a coefficient, `outputs` the labels of
    several outputs, and `further` names parameters with no part in the linear
    predictor.
    """

    features: tuple
    intercept: bool
    outputs: tuple = ()
    further: tuple = ()

    @property
    def n_outputs(self):
        """Linear predictors of a row."""
        return len(self.outputs) or 1

    @property
    def names(self):
        """Of all coordinates, all different."""
        intercept = ["intercept"] * self.intercept
        names = distinct([*self.features, *intercept, *self.further])
        if not self.outputs:
            return names
        return distinct(f"{label}: {name}" for label in self.outputs for name in names)

    def split(self, parameters):
        """Coefficients (..., n_outputs, n_features), intercepts, further ones."""
        *outer, dim = parameters.shape
        n_linear = dim - len(self.further)
        linear = parameters[..., :n_linear].reshape(*outer, self.n_outputs, -1)
        coef = linear[..., : len(self.features)]
        intercept = linear[..., -1] if self.intercept else np.zeros(coef.shape[:-1])
        return coef, intercept, parameters[..., n_linear:]


def feature_names(estimator):
    """Names of the columns that an estimator has seen: those of the data, or x0, ..."""
    default = [f"x{i}" for i in range(estimator.n_features_in_)]
    return tuple(map(str, getattr(estimator, "feature_names_in_", default)))


def distinct(names):
    """The names as strings; one that came before gets a number."""
    seen = {}
    for name in map(str, names):
        free = (f"{name} ({n})" if n > 1 else name for n in count(1))
        seen[next(candidate for candidate in free if candidate not in seen)] = None
    return list(seen)
