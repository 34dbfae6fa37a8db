"""What a hierarchical regression knows of its responses, one class for each kind.

Each has the likelihood of rows (None is normal noise), names of its noise, the plain
model that predicts, ``unit(table)`` of the linear predictor and ``level_prior(unit)``
of the noise's logarithm, or ``further(unit)``, these by name, of all that rows share;
and answers about rows by linear predictors (n, n_draws).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skboost._math import sigmoid
from skboost.linear_model._count_predictive import (
    excess_of,
    log_mixed_probability,
    smallest_counts,
)
from skboost.linear_model._drawn import DrawnClasses, DrawnCounts, DrawnNumbers
from skboost.linear_model._predictive import mixture_log_density, mixture_quantiles
from skboost.linear_model._sources import ranks_of
from skboost.linear_model._summary import level_and_spread, log_rate, summary_of
from skboost.serving import (
    GroupedClassifier,
    GroupedCounts,
    GroupedOrdinal,
    GroupedRegressor,
)
from skboost.targets import (
    GAP_SCALE,
    NOISES,
    CumulativeLogits,
    DispersionPrior,
    Logistic,
    NegativeBinomial,
    NoiseScalePrior,
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


class Response:
    """What is the same for most."""

    noise_name = row_noise = None
    # Whether responses are counts.
    counted = False

    def level_prior(self, unit):
        """None: there is no noise to learn."""

    def further(self, unit):
        """Names and priors of logarithms of what all rows share."""
        prior = self.level_prior(unit)
        return {} if prior is None else {self.noise_name: prior}

    def thresholds(self, model):
        """Draws of thresholds between classes by name, where there are some."""
        return {}


@dataclass(frozen=True)
class NumberResponse(Response):
    """Numbers with noise of a kind; `prior` is one of its scale or "auto"."""

    prior: NoiseScalePrior | str
    kind: str

    noise_name, row_noise = "noise_scale", "noise"

    @property
    def noise(self):
        """Density of a residual."""
        return NOISES[self.kind]()

    @property
    def likelihood(self):
        """None for normal noise."""
        return None if self.kind == "normal" else self.noise

    def plain(self, **arrays):
        """The plain model of draws."""
        return GroupedRegressor(noise_std=float(self.noise.std), **arrays)

    def unit(self, table):
        """One standard deviation of the responses, around their mean."""
        level, spread = level_and_spread(table)
        return Unit(spread, level, spread)

    def level_prior(self, unit):
        """That of the logarithm of the noise scale."""
        return as_noise_prior(self.prior, unit.size)

    def residual_variance(self, model):
        """That of the noise, by draw."""
        return (self.noise.std * model.noise) ** 2

    def drawn(self, model, eta):
        """Responses under draws; see `skboost.linear_model._drawn`."""
        return DrawnNumbers(eta, self.noise, model.noise)

    def quantiles(self, model, eta, p):
        """Of every response, (n, n_levels)."""
        return mixture_quantiles(self.noise, *self._mixture(model, eta), p)

    def log_density(self, model, eta, y):
        """Of responses, (n,)."""
        return mixture_log_density(self.noise, y, *self._mixture(model, eta))

    def _mixture(self, model, eta):
        return eta, np.broadcast_to(model.noise, eta.shape), _even_weights(eta)


@dataclass(frozen=True, eq=False)
class ClassResponse(Response):
    """Labels of two classes."""

    classes: np.ndarray

    likelihood = Logistic()
    row_noise = "the randomness of single answers"

    def plain(self, **arrays):
        """The plain model of draws."""
        return GroupedClassifier(classes=self.classes, **arrays)

    def unit(self, table):
        """One on the scale of logits, of which a row says a quarter at most."""
        return Unit(1.0, 0.0, 2.0)

    def residual_variance(self, model):
        """That of the standard logistic distribution."""
        return np.pi**2 / 3.0

    def drawn(self, model, eta):
        """Responses under draws; see `skboost.linear_model._drawn`."""
        return DrawnClasses(model.drawn(eta), ranks=model.ranks)

    def quantiles(self, model, eta, p):
        """Of the probability of the second class, (n, n_levels)."""
        return sigmoid(np.quantile(eta, p, axis=1)).T


@dataclass(frozen=True, eq=False)
class OrdinalResponse(ClassResponse):
    """Labels of classes, also in ascending order, with a prior of gaps between
    thresholds."""

    categories: np.ndarray

    @property
    def likelihood(self):
        """Cumulative logits."""
        return CumulativeLogits(len(self.classes))

    def plain(self, **arrays):
        """The plain model of draws."""
        ranks = ranks_of(self.categories)
        return GroupedOrdinal(classes=self.classes, ranks=ranks, **arrays)

    def further(self, unit):
        """Gaps between neighbouring thresholds, whose logarithms are normal."""
        prior = DispersionPrior(1.0, GAP_SCALE)
        return {f"gap_{k}": prior for k in range(1, len(self.classes) - 1)}

    def thresholds(self, model):
        has_intercept = model.coef.shape[1] > model.numbers.width
        draws = model.thresholds - (model.coef[:, -1:] if has_intercept else 0.0)
        pairs = zip(self.categories[:-1], self.categories[1:], strict=True)
        return {f"{a}|{b}": one for (a, b), one in zip(pairs, draws.T, strict=True)}

    def quantiles(self, model, eta, p):
        """Of all probabilities, (n, n_classes, n_levels), or of the second of two."""
        ends = np.moveaxis(np.quantile(model.drawn(eta), p, axis=1), 0, -1)
        return ends[:, 1] if len(self.classes) == 2 else ends


@dataclass(frozen=True)
class PoissonResponse(Response):
    """Counts."""

    prior: DispersionPrior | str

    likelihood, plain, counted = Poisson(), GroupedCounts, True

    def unit(self, table):
        """One on the scale of logarithms of rates."""
        summary = summary_of(table)
        # The information of a row about its logarithm is its rate.
        variance = 1.0 / (summary.level + 0.5 / summary.weight)
        dispersion = self.level_prior(None)
        variance += 0.0 if dispersion is None else dispersion.median
        return Unit(1.0, float(log_rate(table)), np.sqrt(variance))

    def residual_variance(self, model):
        """That of a logarithm, were counts lognormal with the same mean and variance,
        at the rate of a row whose features are zero.
        """
        has_intercept = model.coef.shape[1] > model.numbers.width
        log_rate = model.coef[:, -1] if has_intercept else 0.0
        return np.logaddexp(
            0.0 if model.noise is None else np.log1p(model.noise), -log_rate
        )

    def drawn(self, model, eta):
        """Responses under draws; see `skboost.linear_model._drawn`."""
        return DrawnCounts(eta, model.noise)

    def quantiles(self, model, eta, p):
        """Smallest counts whose distribution functions reach p, (n, n_levels)."""
        return smallest_counts(p, *self._mixture(model, eta))

    def log_density(self, model, eta, y):
        """Log probabilities of counts, (n,)."""
        return log_mixed_probability(y, *self._mixture(model, eta))

    def _mixture(self, model, eta):
        levels = None if model.noise is None else np.log(model.noise)
        return eta, np.zeros_like(eta), levels, _even_weights(eta)

    def excess(self, model, data):
        """Sums of `excess_of` over rows of `GroupedData`, medians over draws."""
        # At draws of everything, whose residuals are as large as those of the truth on
        # average.
        n = len(data.rows.y)
        some = np.linspace(0, n - 1, min(n, _MOST_RESIDUALS)).astype(int)
        rows, numbers, sums = data.rows.taken(some), data.table.X[some], 0.0
        codes = [factor.codes for factor in rows.factors]
        for some, eta in model.predictors(numbers, codes, rows.offset):
            each = excess_of(rows.y[some, None], bounded_exp(eta))
            sums += rows.weight[some] @ np.stack(each)
        return np.median(sums, axis=1)


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
