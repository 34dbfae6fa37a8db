"""Likelihood of multinomial logistic regression."""

import numpy as np

from skboost.targets._likelihood import Likelihood


class Multinomial(Likelihood):
    """``ln p(y | eta) = eta_y - ln(sum_k exp(eta_k))`` for y in 0, ..., n_classes - 1.

    Every class has its own coefficients (the symmetric parameterisation); the prior
    identifies them.

    Parameters
    ----------
    n_classes : int
    """

    def __init__(self, n_classes):
        self.n_outputs = n_classes
        self.n_temporaries = n_classes + 2
        # Sums of n_classes terms of at most 1 stay far from overflow in a product.
        self._limit = max(1, min(512, int(600 / np.log(max(2, n_classes)))))

    def checked(self, y, n_samples):
        y = np.asarray(y)
        valid = y.shape == (n_samples,) and np.issubdtype(y.dtype, np.integer)
        if not valid or y.min() < 0 or y.max() >= self.n_outputs:
            raise ValueError(
                f"y must hold integers in 0..{self.n_outputs - 1}, shape "
                f"({n_samples},); encode the classes first."
            )
        return y

    def linear(self, y):
        return (y[:, None] == np.arange(self.n_outputs)).astype(float)

    def _exponentials(self, eta):
        """exp(eta - top), their sum over classes and top = max over classes (n, S)."""
        top = eta.max(axis=0)
        eta -= top
        np.exp(eta, out=eta)
        return eta, eta.sum(axis=0), top

    def _sum_normaliser(self, total, top, rows):
        value = rows.sum(top)
        return value + rows.sum_log(total, self._limit)

    def total(self, eta, rows):
        """Minus the weighted sum of the logs of the normalisers."""
        _, total, top = self._exponentials(eta)
        return -self._sum_normaliser(total, top, rows)

    def total_and_slope(self, eta, rows):
        exp, total, top = self._exponentials(eta)
        exp *= rows.weights[:, None] / total
        slope = np.stack([rows.block.pull(part) for part in exp])
        return -self._sum_normaliser(total, top, rows), -slope

    def curvature(self, eta, rows):
        """Averages over draws: what `GLMTarget.curvature` sums over rows.

        Parameters
        ----------
        eta : array (n_classes, n_rows, n_draws)
            Free to be overwritten.
        rows : WeightedRows

        Returns
        -------
        value : float, in nats
            Weighted sum over rows, without the linear part.
        slope : array (n_classes, n_rows)
            Weighted derivatives of it in each linear predictor.
        bend : array (n_classes * (n_classes + 1) / 2, n_rows)
            Weighted second derivatives with the sign changed, one row for each pair of
            classes in the order of ``numpy.triu_indices``.
        """
        first, second = np.triu_indices(self.n_outputs)
        weight = rows.weights / eta.shape[2]
        p, total, top = self._exponentials(eta)
        p /= total
        value = -self._sum_normaliser(total, top, rows).mean()
        mean = p.sum(axis=2) * weight
        bend = np.empty((first.size, eta.shape[1]))
        for pair, (k, m) in enumerate(zip(first, second, strict=True)):
            np.einsum("rs,rs->r", p[k], p[m], out=bend[pair])
        bend *= -weight
        # p - p^2 is positive; its rounding need not be.
        same = first == second
        bend[same] = np.maximum(mean + bend[same], 0.0)
        return value, -mean, bend
