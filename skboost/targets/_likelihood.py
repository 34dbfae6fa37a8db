"""What a generalised linear model brings of its own: the likelihood of one row."""

import numpy as np

from skboost.targets._design import sum_log
from skboost.targets._quadrature import gaussian_expectation_1d


class WeightedRows:
    """A block of rows with their responses and weights, summed over by likelihoods.

    Parameters
    ----------
    block : Block
        The rows of the design.
    temperature : float, default=1.0
        By which all weights are multiplied.

    Attributes
    ----------
    y : array (n_rows,)
        Responses.
    weight : float or array (n_rows,)
        One number where all weights are equal.
    """

    def __init__(self, block, temperature=1.0):
        self.block, self.y = block, block.table.y
        weight = block.table.weight
        self.weight = weight if temperature == 1.0 else temperature * weight

    @property
    def weights(self):
        """Weights as an array (n_rows,)."""
        if isinstance(self.weight, float):
            return np.full(len(self.y), self.weight)
        return self.weight

    def sum(self, values):
        """Column sums of weights times ``values``."""
        return self.weights @ values

    def sum_log(self, values, limit=512):
        """Column sums of weights times ``ln values``; destroys ``values``.

        ``limit`` is the largest number of values whose product can not overflow.
        """
        if isinstance(self.weight, float):
            return self.weight * sum_log(values, limit)
        return self.weight @ np.log(values, out=values)

    def pull(self, slope):
        """``X^T (weights * slope)``, (dim, n_draws); destroys ``slope``."""
        if isinstance(self.weight, float):
            return self.weight * self.block.pull(slope)
        slope *= self.weight[:, None]
        return self.block.pull(slope)


class Likelihood:
    """Log likelihood of one row as a function of its linear predictors.

    A subclass with one linear predictor gives ``checked`` and ``value_and_slope``;
    the rest has defaults, which it may replace by closed forms (``expected``) or by
    faster sums over rows (``linear``, ``total``, ``total_and_slope``). One with
    several linear predictors has arrays (n_outputs, n_rows, n_draws) in place of
    (n_rows, n_draws), and gives ``total``, ``total_and_slope`` and ``expected_rows``.

    Attributes
    ----------
    n_outputs : int
        Linear predictors of a row.
    n_temporaries : int
        Arrays of the size (n_rows, n_draws) that are alive at once; they set how many
        rows are taken together.
    exact_gaussian : bool
        Whether expectations under Gaussian linear predictors are so good that sums
        of them need no draws.
    log_concave : bool
        Whether the log likelihood of a row is concave in its linear predictors.
    linear_in_y : bool
        Whether the log likelihood of a row is linear in y, but for a constant: rows
        that differ in y alone are then one row with the mean of y.
    light_tails : bool
        Whether means are exponentials of linear predictors; see `Target`.
    has_level : bool
        Whether rows share one parameter more, whose logarithm ``given`` takes.
    """

    n_outputs = 1
    exact_gaussian = True
    light_tails = False
    log_concave = False
    linear_in_y = False
    has_level = False
    n_temporaries = 1

    def checked(self, y, n_samples):
        """Responses as an array (n_samples,); a ValueError where they mean nothing."""
        raise NotImplementedError(
            f"{type(self).__name__} must define checked(y, n_samples)."
        )

    def value_and_slope(self, eta, y):
        """Log likelihood of every row and draw, and its derivative in ``eta``.

        Parameters
        ----------
        eta : array (n_rows, n_draws)
            Linear predictors, free to be overwritten.
        y : array (n_rows, 1)

        Returns
        -------
        value : array (n_rows, n_draws), in nats
            Without the part that ``linear`` gives.
        slope : array (n_rows, n_draws)
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define value_and_slope(eta, y)."
        )

    def bend(self, eta, y):
        """Minus the second derivative of the log likelihood in ``eta``.

        Parameters
        ----------
        eta : array (n_rows, n_draws)
        y : array (n_rows, 1)

        Returns
        -------
        array (n_rows, n_draws)
        """
        raise NotImplementedError(f"{type(self).__name__} must define bend(eta, y).")

    def given(self, level):
        """The likelihood where that parameter is known, None without one."""
        return self

    def third(self, eta, y):
        """Third derivative of the log likelihood in ``eta``.

        Parameters
        ----------
        eta : array (n_rows, n_draws)
        y : array (n_rows, 1)

        Returns
        -------
        array (n_rows, n_draws)
        """
        raise NotImplementedError(f"{type(self).__name__} must define third(eta, y).")

    def expected(self, mean, sd, y):
        """Expectations of the whole log likelihood where eta ~ N(mean, sd^2).

        Parameters
        ----------
        mean, sd, y : arrays (n_rows,)

        Returns
        -------
        value, slope, bend : arrays (n_rows,)
            Of the log likelihood in nats, its derivative and minus its second one.
            By default a trapezoid rule with an error near 1e-10 for functions that
            are smooth on the scale of ``sd`` and grow no faster than polynomials.
        """
        # Stein's identity: E f''(t) = E f'(t) (t - mean) / sd^2.
        # A point mass is integrated as a narrow Gaussian, so that differences of the
        # slope can stand in for its derivative.
        sd, linear = np.maximum(sd, 1e-4), self.linear(y)

        def terms(eta):
            shift = eta - mean
            value, slope = self.value_and_slope(eta.copy(), y)
            return np.stack([value, slope, -slope * shift / sd**2])

        value, slope, bend = gaussian_expectation_1d(terms, mean, sd)
        return value + linear * mean, slope + linear, bend

    def expected_rows(self, mean, covariance, y):
        """The same for any number of linear predictors.

        Parameters
        ----------
        mean : array (n_outputs, n_rows)
        covariance : array (n_pairs, n_rows)
            One row for each pair of predictors, in the order of `numpy.triu_indices`.
        y : array (n_rows,)

        Returns
        -------
        value : array (n_rows,), in nats
        slope : array (n_outputs, n_rows)
        bend : array (n_pairs, n_rows)
            Minus the second derivatives.
        """
        value, slope, bend = self.expected(mean[0], np.sqrt(covariance[0]), y)
        return value, slope[None], bend[None]

    def coarse(self):
        """This likelihood with expectations as accurate as a search needs."""
        return self

    def linear(self, y):
        """Coefficients of the linear part of the log likelihood, for sums done once.

        Parameters
        ----------
        y : array (n_rows,)

        Returns
        -------
        array (n_rows,), or (n_rows, n_outputs) for several linear predictors
            ``a`` where the log likelihood is ``a * eta + value``; zero by default.
        """
        return np.zeros(len(y))

    def total(self, eta, rows):
        """Weighted sum over rows of the log likelihood without its linear part.

        Parameters
        ----------
        eta : array (n_rows, n_draws), or (n_outputs, n_rows, n_draws)
            Free to be overwritten.
        rows : WeightedRows

        Returns
        -------
        array (n_draws,), in nats
        """
        return rows.sum(self.value_and_slope(eta, rows.y[:, None])[0])

    def total_and_slope(self, eta, rows):
        """``total`` and its gradient, (dim, n_draws) for each linear predictor."""
        value, slope = self.value_and_slope(eta, rows.y[:, None])
        return rows.sum(value), rows.pull(slope)
