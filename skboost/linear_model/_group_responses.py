"""What a hierarchical regression knows of its responses, one class for each kind.

Each has the likelihood of rows (None is normal noise), names of its noise, the plain
model that predicts, ``unit(table)`` of the linear predictor and ``level_prior(unit)``
of the noise's logarithm, and answers about rows by linear predictors (n, n_draws).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skboost.linear_model._count_predictive import (
    log_mixed_probability,
    smallest_counts,
)
from skboost.linear_model._predictive import mixture_log_density, mixture_quantiles
from skboost.linear_model._summary import level_and_spread, log_rate, summary_of
from skboost.serving import (
    GroupedClassifier,
    GroupedCounts,
    GroupedRegressor,
    sigmoid,
)
from skboost.targets import (
    DispersionPrior,
    Logistic,
    NegativeBinomial,
    NoiseScalePrior,
    NormalNoise,
    Poisson,
    as_dispersion_prior,
    as_noise_prior,
    bounded_exp,
)

# Rows whose residuals are looked at, of many.
_MOST_RESIDUALS = 4096


class Unit(NamedTuple):
    """Size and level of what the linear predictor explains, and the error of a row."""

    size: float
    level: float
    error: float


@dataclass(frozen=True)
class NormalResponse:
    """Numbers with normal noise, whose prior is one of its scale or "auto"."""

    prior: NoiseScalePrior | str

    likelihood, noise_name, row_noise = None, "noise_scale", "noise"
    plain = GroupedRegressor

    def unit(self, table):
        """One standard deviation of the responses, around their mean."""
        level, spread = level_and_spread(table)
        return Unit(spread, level, spread)

    def level_prior(self, unit):
        """That of the logarithm of the noise scale."""
        return as_noise_prior(self.prior, unit.size)

    def residual_variance(self, model):
        """That of the noise, by draw."""
        return model.noise**2

    def quantiles(self, model, eta, p):
        """Of every response, (n, n_levels)."""
        return mixture_quantiles(NormalNoise(), *self._mixture(model, eta), p)

    def log_density(self, model, eta, y):
        """Of responses, (n,)."""
        return mixture_log_density(NormalNoise(), y, *self._mixture(model, eta))

    def _mixture(self, model, eta):
        return eta, np.broadcast_to(model.noise, eta.shape), _even_weights(eta)


@dataclass(frozen=True, eq=False)
class ClassResponse:
    """Labels of two classes."""

    classes: np.ndarray

    likelihood, noise_name = Logistic(), None
    row_noise = "the randomness of single answers"

    def plain(self, **arrays):
        """The plain model of draws."""
        return GroupedClassifier(classes=self.classes, **arrays)

    def unit(self, table):
        """One on the scale of logits, of which a row says a quarter at most."""
        return Unit(1.0, 0.0, 2.0)

    def level_prior(self, unit):
        """None: there is no noise to learn."""

    def residual_variance(self, model):
        """That of the standard logistic distribution."""
        return np.pi**2 / 3.0

    def quantiles(self, model, eta, p):
        """Of the probability of the second class, (n, n_levels)."""
        return sigmoid(np.quantile(eta, p, axis=1)).T


@dataclass(frozen=True)
class PoissonResponse:
    """Counts; `exposed` where rows of the fit had exposures."""

    exposed: bool
    prior: DispersionPrior | str

    likelihood, plain = Poisson(), GroupedCounts
    noise_name = row_noise = None

    def unit(self, table):
        """One on the scale of logarithms of rates."""
        summary = summary_of(table)
        # The information of a row about its logarithm is its rate.
        variance = 1.0 / (summary.level + 0.5 / summary.weight)
        dispersion = self.level_prior(None)
        variance += 0.0 if dispersion is None else dispersion.median
        return Unit(1.0, float(log_rate(table)), np.sqrt(variance))

    def level_prior(self, unit):
        """None: there is no noise to learn."""

    def residual_variance(self, model):
        """That of a logarithm, were counts lognormal with the same mean and variance,
        at the rate of a row whose features are zero.
        """
        has_intercept = model.coef.shape[1] > len(model.numbers)
        log_rate = model.coef[:, -1] if has_intercept else 0.0
        return np.logaddexp(
            0.0 if model.noise is None else np.log1p(model.noise), -log_rate
        )

    def quantiles(self, model, eta, p):
        """Smallest counts whose distribution functions reach p, (n, n_levels)."""
        return smallest_counts(p, *self._mixture(model, eta))

    def log_density(self, model, eta, y):
        """Log probabilities of counts, (n,)."""
        return log_mixed_probability(y, *self._mixture(model, eta))

    def _mixture(self, model, eta):
        levels = None if model.noise is None else np.log(model.noise)
        return eta, np.zeros_like(eta), levels, _even_weights(eta)

    def pearson(self, model, data):
        """Pearson's statistic of `GroupedData`, its variance if counts are Poisson, and
        their weight.
        """
        # At draws of everything, whose residuals are as large as those of the truth on
        # average: no degrees of freedom are to be subtracted.
        n = len(data.rows.y)
        some = np.linspace(0, n - 1, min(n, _MOST_RESIDUALS)).astype(int)
        rows, numbers, sums = data.rows.taken(some), data.table.X[some], 0.0
        codes = [factor.codes for factor in rows.factors]
        for some, eta in model.predictors(numbers, codes, rows.offset):
            rate, weight = bounded_exp(eta), rows.weight[some]
            pearson = (rows.y[some, None] - rate) ** 2 / rate
            sums += weight @ np.stack([pearson, 2.0 + 1.0 / rate])
        return (*np.median(sums, axis=1), rows.weight.sum())


class NegativeBinomialResponse(PoissonResponse):
    """Counts with a dispersion."""

    likelihood = NegativeBinomial()
    noise_name, row_noise = "dispersion", "the dispersion of counts"

    def level_prior(self, unit):
        """That of the logarithm of the dispersion."""
        return as_dispersion_prior(self.prior)


COUNTS = {"poisson": PoissonResponse, "negative_binomial": NegativeBinomialResponse}


def _even_weights(eta):
    return np.full(eta.shape[1], 1.0 / eta.shape[1])
