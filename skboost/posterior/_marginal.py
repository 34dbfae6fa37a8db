"""One-dimensional marginals of a mixture: pdf, cdf and quantiles."""

from dataclasses import dataclass
from numbers import Real

import numpy as np
from scipy.special import ndtri

from skboost._math import log_sum_exp, log_weights


def check_level(level):
    """A probability strictly between 0 and 1."""
    if not (isinstance(level, Real) and 0.0 < level < 1.0):
        raise ValueError(
            f"level must lie strictly between 0 and 1; got {level!r}. Use 0.9 for a "
            "90 % interval."
        )
    return float(level)


def invert_cdf(cdf, pdf, p, guess, low, high, tolerance):
    """Points where the increasing function `cdf` equals `p`, elementwise.

    Newton steps from `guess`, inside a bracket, or bisection.
    """
    x = np.clip(guess, low, high)
    last = high - low
    # More bisections than there are digits, out to where exponents end.
    for _ in range(200):
        excess = cdf(x) - p
        low = np.where(excess < 0, x, low)
        high = np.where(excess < 0, high, x)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            newton = x - excess / pdf(x)
            safe = (newton >= low) & (newton <= high)
            safe &= np.abs(newton - x) <= 0.5 * last
        new = np.where(safe, newton, 0.5 * (low + high))
        last = np.abs(new - x)
        x = new
        if (last <= tolerance + 4.0 * np.finfo(float).eps * np.abs(x)).all():
            break
    return x


def _bracket(cdf, p, center, reach):
    low, high = center - reach, center + reach
    for _ in range(200):
        below, above = cdf(low) > p, cdf(high) < p
        if not (below.any() or above.any()):
            break
        reach = 2.0 * reach
        low = np.where(below, center - reach, low)
        high = np.where(above, center + reach, high)
    return low, high


class BaseMarginal:
    """What follows from ``component_log_pdf``, ``weights``, ``_ends``,
    ``_inner_quantile``."""

    def log_pdf(self, x):
        """Log density at x, the shape of x, nats; -inf outside the support."""
        x = np.asarray(x, dtype=float)
        columns = self.component_log_pdf(x).reshape(x.size, len(self.weights))
        return log_sum_exp(columns, log_weights(self.weights)).reshape(x.shape)[()]

    def quantile(self, p):
        """Values with probability `p`, in [0, 1], below, the shape of p.

        Accurate to 1e-10 of the narrowest component's deviation where the marginal is
        exact.
        """
        p = np.asarray(p, dtype=float)
        if not ((p >= 0) & (p <= 1)).all():
            raise ValueError(f"p must lie in [0, 1]; got {p}.")
        low, high = self._ends
        out = np.where(p > 0.5, high, low)
        inner = (p > 0) & (p < 1)
        if inner.any():
            out[inner] = self._inner_quantile(p[inner])
        return out[()]

    def pdf(self, x):
        """Density at x, the shape of x."""
        return np.exp(self.log_pdf(x))

    def interval(self, level=0.9):
        """Central interval that holds `level` of the probability, shape (2,)."""
        tail = 0.5 * (1.0 - check_level(level))
        return self.quantile(np.array([tail, 1.0 - tail]))


@dataclass(frozen=True, eq=False)
class Marginal(BaseMarginal):
    """Marginal density of one coordinate of a mixture.

    Parameters
    ----------
    mixture : Mixture
    index : int or ndarray of int
        The coordinate, or that of each value that is asked about.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skboost import BoostedBayesianLinearRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BoostedBayesianLinearRegression(random_state=0).fit(X, y)
    >>> float(model.posterior_.marginal(2).cdf(0.0).round(3))  # of body mass
    0.0
    """

    mixture: object
    index: object
    _ends = -np.inf, np.inf

    @property
    def weights(self):
        """Weights of the components, shape (n_components,)."""
        return self.mixture.weights

    def __repr__(self):
        return f"Marginal(index={self.index}, n_components={self.mixture.n_components})"

    def component_log_pdf(self, x):
        """Log densities of the components, nats, shape ``(*x.shape, n_components)``."""
        x, own = np.asarray(x, dtype=float), self.mixture
        columns = [
            own.marginal_log_density(k, self.index, x.ravel())
            for k in range(own.n_components)
        ]
        return np.column_stack(columns).reshape(*x.shape, own.n_components)

    def component_locations(self):
        """Where the components are: their means, shape (n_components,)."""
        return self.mixture.component_locations()[:, self.index]

    def cdf(self, x):
        """Probability of values up to x, the shape of x."""
        x, own = np.asarray(x, dtype=float), self.mixture
        columns = [
            own.marginal_cdf(k, self.index, x.ravel()) for k in range(own.n_components)
        ]
        # Rounding of the weighted sum may pass one.
        total = np.minimum(np.column_stack(columns) @ own.weights, 1.0)
        return total.reshape(x.shape)[()]

    def _inner_quantile(self, p):
        means = self.component_locations()
        stds = self.mixture.component_scales()[:, self.index]
        center = self.weights @ means
        spread = np.sqrt(self.weights @ (stds**2 + (means - center) ** 2))
        reach = np.max(np.abs(means - center) + 8.0 * stds, axis=0)
        guess = center + spread * ndtri(p)
        center = np.broadcast_to(center, p.shape)
        reach = np.broadcast_to(reach, p.shape)
        low, high = _bracket(self.cdf, p, center, reach)
        tolerance = 1e-11 * stds.min(axis=0)
        return invert_cdf(self.cdf, self.pdf, p, guess, low, high, tolerance)


def quantile_table(mixture, coordinates, levels):
    """Quantiles at probabilities `levels` of some coordinates, shape (len, len)."""
    # Those of all coordinates are looked for together.
    each = Marginal(mixture, np.repeat(coordinates, len(levels)))
    return each.quantile(np.tile(levels, len(coordinates))).reshape(-1, len(levels))
