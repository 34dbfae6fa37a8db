"""Responses of rows under draws of a posterior: what questions about rows begin with.

Estimators have ``_drawn(n, rng, reported)``, draws of all that predicts, or of the
posterior that is reported where orbits make it another one, and
``_responses(drawn, X, **keywords)``, blocks of rows with what their responses are under
each of these draws: one of the classes here, whose arrays are (n_rows, n_draws, ...).
``_coded(X, y, **keywords)`` are responses as these classes take them, and
``_named(drawn)`` the draws by name, with what ArviZ calls their dimensions.
"""

from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy.special import bdtr, gammaln, xlog1py, xlogy

from skboost._math import bounded_exp, sigmoid
from skboost._parallel import row_blocks
from skboost.linear_model._count_predictive import below_count
from skboost.serving import shares
from skboost.targets import NegativeBinomial

# Above it NumPy draws no Poisson counts.
_LARGEST_RATE = 9e18
# Draws over which distribution functions of counts with a dispersion are averaged.
_FEWER = 128


def linear_predictors(X, intercept, theta, offset=None):
    """Blocks of rows, and their linear predictors under `theta` (n_draws, dim).

    Rows may lack a column of ones for the intercept, the last coordinate.
    """
    for rows in row_blocks(X.shape[0], 2 * len(theta)):
        block = X[rows]
        n_columns = block.shape[1]
        eta = np.asarray(block @ theta[:, :n_columns].T)
        if intercept and n_columns < theta.shape[1]:
            eta += theta[:, -1]
        if offset is not None:
            eta += offset[rows, None]
        yield rows, eta


@dataclass(frozen=True, eq=False)
class DrawnNumbers:
    """Numbers with noise of `scale` (n_draws,) around `eta`."""

    kind = "response"

    eta: np.ndarray
    noise: object
    scale: np.ndarray

    def mean(self):
        """Expected responses given every draw; of noise without a mean, its centre."""
        return self.eta

    def sample(self, rng):
        """One response for each row and draw."""
        noise = self.noise.sample(rng, self.eta.shape)
        noise *= self.scale
        noise += self.eta
        return noise

    def log_density(self, y):
        """Of the responses of rows given every draw, nats."""
        z = (y[:, None] - self.eta) / self.scale
        return self.noise.log_density(z) - np.log(self.scale)

    def distribution(self, y):
        """Probabilities of responses below those of rows, and not above them."""
        below = self.noise.cdf((y[:, None] - self.eta) / self.scale).mean(axis=1)
        return below, below


@dataclass(frozen=True, eq=False)
class DrawnCounts:
    """Counts of mean exp(eta), with a dispersion (n_draws,) where they have one."""

    kind = "count"

    eta: np.ndarray
    dispersion: np.ndarray | None = None

    def mean(self):
        """See `DrawnNumbers`."""
        return bounded_exp(self.eta)

    def sample(self, rng):
        """See `DrawnNumbers`."""
        rate = bounded_exp(self.eta)
        if self.dispersion is not None:
            shape = 1.0 / np.maximum(self.dispersion, 1e-12)
            rate *= rng.standard_gamma(shape, rate.shape) / shape
        return rng.poisson(np.minimum(rate, _LARGEST_RATE))

    def log_density(self, y):
        """See `DrawnNumbers`."""
        y = y[:, None]
        if self.dispersion is None:
            return y * self.eta - bounded_exp(self.eta) - gammaln(y + 1.0)
        levels = np.log(self.dispersion)
        return NegativeBinomial().log_probability(y, self.eta, levels)

    def distribution(self, y):
        """See `DrawnNumbers`."""
        some, levels = self, None
        if self.dispersion is not None:
            # Incomplete beta functions take microseconds each.
            step = -(-self.eta.shape[1] // _FEWER)
            some = DrawnCounts(self.eta[:, ::step], self.dispersion[::step])
            levels = np.log(some.dispersion)
        at = below_count(y[:, None, None], some.eta[:, :, None], levels).mean(
            axis=(1, 2)
        )
        own = np.exp(some.log_density(y)).mean(axis=1)
        return np.maximum(at - own, 0.0), at


@dataclass(frozen=True, eq=False)
class DrawnClasses:
    """Classes with probabilities (n_rows, n_draws, n_classes) under every draw.

    `averaged` (n_rows, n_classes) are those of new responses where they are no averages
    over draws: sharpened ones, and those of models against all others. `ranks` are
    places of classes on their scale, where this is not the order of sorting.
    """

    kind = "probability"

    proba: np.ndarray
    averaged: np.ndarray | None = None
    ranks: np.ndarray | None = None

    def mean(self):
        """Probabilities given every draw; of two classes, of the second."""
        return self.proba[..., 1] if self.proba.shape[2] == 2 else self.proba

    def tried(self, trials):
        """Successes, which are the second class, among trials (n_rows,)."""
        return DrawnTrials(self.mean(), trials)

    def sample(self, rng):
        """Codes of classes, one for each row and draw."""
        p = self.proba if self.averaged is None else self.averaged[:, None]
        u = rng.random(self.proba.shape[:2])
        if p.shape[2] == 2:
            return (u < p[..., 1]).astype(np.intp)
        codes, reached = np.zeros(u.shape, dtype=np.intp), 0.0
        for k in range(p.shape[2] - 1):
            reached = reached + p[..., k]
            codes += u > reached
        return codes

    def log_density(self, codes):
        """See `DrawnNumbers`."""
        own = np.take_along_axis(self.proba, codes[:, None, None], axis=2)[..., 0]
        return np.log(np.maximum(own, np.finfo(float).tiny))

    def distribution(self, codes):
        """See `DrawnNumbers`; classes are in their order."""
        p = self.proba.mean(axis=1) if self.averaged is None else self.averaged
        if self.ranks is not None:
            p, codes = p[:, np.argsort(self.ranks)], self.ranks[codes]
        upto = np.take_along_axis(p.cumsum(axis=1), codes[:, None], axis=1)[:, 0]
        return upto - p[np.arange(len(codes)), codes], upto


@dataclass(frozen=True, eq=False)
class DrawnTrials:
    """Successes among trials (n_rows,), each with a probability (n_rows, n_draws)."""

    kind = "probability of a success"

    proba: np.ndarray
    trials: np.ndarray

    def mean(self):
        """Probabilities of a success given every draw."""
        return self.proba

    def sample(self, rng):
        """See `DrawnNumbers`."""
        return rng.binomial(self.trials[:, None].astype(np.int64), self.proba)

    def log_density(self, y):
        """See `DrawnNumbers`."""
        y, n = y[:, None], self.trials[:, None]
        ways = gammaln(n + 1.0) - gammaln(y + 1.0) - gammaln(n - y + 1.0)
        return ways + xlogy(y, self.proba) + xlog1py(n - y, -self.proba)

    def distribution(self, y):
        """See `DrawnNumbers`."""
        n = self.trials[:, None].astype(np.int64)
        at = bdtr(y[:, None], n, self.proba).mean(axis=1)
        own = np.exp(self.log_density(y)).mean(axis=1)
        return np.maximum(at - own, 0.0), at


def drawn_classes(eta, n_classes, one_against_rest=False):
    """Probabilities (n_rows, n_draws, n_classes) from predictors (n_rows, n_draws * n).

    Of two classes n is one, and else the number of classes.
    """
    if n_classes == 2:
        positive = sigmoid(eta)
        return np.stack([1.0 - positive, positive], axis=2)
    eta = eta.reshape(len(eta), -1, n_classes)
    if one_against_rest:
        return shares(sigmoid(eta))
    # Sums over a short last axis take NumPy several times as long.
    each = [eta[..., k] for k in range(n_classes)]
    eta -= reduce(np.maximum, each)[..., None]
    np.exp(eta, out=eta)
    eta /= reduce(np.add, each)[..., None]
    return eta
