"""Transforms of several coordinates together, in the forms of Stan."""

import numpy as np

from skboost.transforms._elementwise import Interval, Real, Transform, clipped, within

# Up to where a partial correlation follows its coordinate: tanh(6) is .99999.
_LAST = 6.0


class Simplex(Transform):
    """Positive coordinates that add up to one, by stick breaking; z = 0 is the centre.

    Of what is left coordinate k takes the share ``1 / (1 + exp(-y_k))``, ``y_k = z_k -
    ln(K - k)`` (Stan Reference Manual, "Unit simplex").
    """

    name = "simplex"
    min_size = 2
    n_dropped = 1
    each = Interval()

    @staticmethod
    def _sticks(z):
        """Log share and log rest of every break, and the log stick before it."""
        n_breaks = z.shape[1]
        y = z - np.log(np.arange(n_breaks, 0, -1))
        log_share, log_rest = -np.logaddexp(0.0, -y), -np.logaddexp(0.0, y)
        log_stick = np.cumsum(log_rest, axis=1)
        before = np.column_stack([np.zeros(len(z)), log_stick])
        return log_share, log_rest, before

    def forward(self, z):
        log_share, _, before = self._sticks(z)
        first = np.exp(log_share + before[:, :-1])
        theta = np.column_stack([first, np.exp(before[:, -1])])
        # A coordinate of a simplex never underflows to zero, where a density may be
        # infinite.
        smallest = 1e-300
        return np.maximum(theta, smallest)

    def inverse(self, theta):
        after = np.cumsum(theta[:, ::-1], axis=1)[:, -2::-1]
        n_breaks = theta.shape[1] - 1
        odds = np.log(theta[:, :-1]) - np.log(after)
        return odds + np.log(np.arange(n_breaks, 0, -1))

    def log_jacobian(self, z):
        log_share, log_rest, before = self._sticks(z)
        return (log_share + log_rest + before[:, :-1]).sum(axis=1)

    def log_jacobian_gradient(self, z):
        share = np.exp(self._sticks(z)[0])
        return 1.0 - np.arange(z.shape[1] + 1, 1, -1) * share

    def pull(self, z, gradient):
        share = np.exp(self._sticks(z)[0])
        terms = gradient * self.forward(z)
        # A larger share of break k is paid for by all that come after it.
        onwards = np.cumsum(terms[:, ::-1], axis=1)[:, :0:-1]
        return terms[:, :-1] - share * onwards

    def contains(self, theta):
        # How far from one the coordinates of a point of the simplex may add up to.
        tolerance = 1e-8
        total = np.abs(theta.sum(axis=1) - 1.0) <= tolerance
        return (theta > 0).all(axis=1) & total

    def from_box(self, theta):
        return theta / theta.sum(axis=1, keepdims=True)


class Ordered(Transform):
    """Increasing coordinates, each by ``exp(z_k)`` (Stan Reference Manual, "Ordered
    vector").

    Exact for abs(z) up to 700, constant beyond. Neighbours never tie.
    """

    name = "ordered"
    min_size = 2
    each = Real()

    def forward(self, z):
        theta = z.copy()
        step = np.exp(clipped(z))
        for k in range(1, z.shape[1]):
            before = theta[:, k - 1]
            theta[:, k] = np.maximum(before + step[:, k], np.nextafter(before, np.inf))
        return theta

    def inverse(self, theta):
        return np.column_stack([theta[:, 0], np.log(np.diff(theta, axis=1))])

    def log_jacobian(self, z):
        return clipped(z[:, 1:]).sum(axis=1)

    def log_jacobian_gradient(self, z):
        gradient = within(z)
        gradient[:, 0] = 0.0
        return gradient

    def pull(self, z, gradient):
        onwards = np.cumsum(gradient[:, ::-1], axis=1)[:, ::-1]
        step = np.exp(clipped(z)) * within(z)
        step[:, 0] = 1.0
        return step * onwards

    def contains(self, theta):
        rising = (np.diff(theta, axis=1) > 0).all(axis=1)
        return rising & np.isfinite(theta).all(axis=1)

    def from_box(self, theta):
        return np.sort(theta, axis=1)


class Correlation(Transform):
    """Correlations ``R[np.tril_indices(K, -1)]``, row by row; z = 0 is the identity.

    tanh z in row i is the partial correlation with column j given those before, and ``R
    = L L'`` (Lewandowski, Kurowicka, Joe 2009; Stan Reference Manual, "Correlation
    matrices"). Exact for abs(z) up to 6, constant beyond.
    """

    name = "correlation"
    min_size = 1
    each = Interval(-1.0, 1.0)

    @staticmethod
    def n_variables(size):
        """K for K (K - 1) / 2 correlations; 0 where there is none."""
        k = (1 + round(np.sqrt(1 + 8 * size))) // 2
        return k if k * (k - 1) // 2 == size else 0

    def problem_with(self, size):
        if self.n_variables(size):
            return None
        return "a number of coordinates K (K - 1) / 2 for K variables: 1, 3, 6, 10, ..."

    @classmethod
    def _matrices(cls, values):
        """Values below the diagonals of (n, K, K) matrices of zeros."""
        k = cls.n_variables(values.shape[1])
        out = np.zeros((len(values), k, k))
        out[:, *np.tril_indices(k, -1)] = values
        return out

    def _correlations(self, theta):
        half = self._matrices(theta)
        return half + np.swapaxes(half, 1, 2) + np.eye(half.shape[1])

    @classmethod
    def _factor(cls, z):
        """Partial correlations, lengths that columns before left, and L; (n, K, K)."""
        x = cls._matrices(np.tanh(np.clip(z, -_LAST, _LAST)))
        left = np.cumprod(np.sqrt(1.0 - x**2), axis=2)
        left = np.concatenate([np.ones_like(left[:, :, :1]), left[:, :, :-1]], axis=2)
        return x, left, np.tril(left) * (x + np.eye(x.shape[1]))

    @classmethod
    def root(cls, z):
        """The triangular factors L of the correlation matrices, (n, K, K)."""
        return cls._factor(z)[2]

    @staticmethod
    def _below(matrices):
        return matrices[:, *np.tril_indices(matrices.shape[1], -1)]

    def forward(self, z):
        _, _, factor = self._factor(z)
        return self._below(factor @ np.swapaxes(factor, 1, 2))

    def inverse(self, theta):
        r = self._correlations(theta)
        x, factor = np.zeros_like(r), np.zeros_like(r)
        left = np.ones(r.shape[:2])
        last = np.tanh(_LAST)
        for j in range(r.shape[1]):
            factor[:, j, j] = left[:, j]
            after = slice(j + 1, None)
            known = np.einsum("nik,nk->ni", factor[:, after, :j], factor[:, j, :j])
            share = (r[:, after, j] - known) / (left[:, j, None] * left[:, after])
            x[:, after, j] = np.clip(share, -last, last)
            factor[:, after, j] = x[:, after, j] * left[:, after]
            left[:, after] *= np.sqrt(1.0 - x[:, after, j] ** 2)
        return np.arctanh(self._below(x))

    def _powers(self, z):
        k = self.n_variables(z.shape[1])
        return k - np.tril_indices(k, -1)[1]

    def log_jacobian(self, z):
        z = np.clip(z, -_LAST, _LAST)
        return -(np.log(np.cosh(z)) * self._powers(z)).sum(axis=1)

    def log_jacobian_gradient(self, z):
        return -np.tanh(z) * self._powers(z) * (np.abs(z) <= _LAST)

    def pull(self, z, gradient):
        half = self._matrices(gradient)
        return self.pull_root(z, (half + np.swapaxes(half, 1, 2)) @ self.root(z))

    @classmethod
    def pull_root(cls, z, of_root):
        """Gradient in z of a function of L, given that in L, (n, K, K)."""
        x, left, factor = cls._factor(z)
        # A larger share of column j is paid for by all columns after it.
        terms = of_root * factor
        onwards = np.cumsum(terms[:, :, ::-1], axis=2)[:, :, ::-1] - terms
        slope = cls._below((1.0 - x**2) * left * of_root - x * onwards)
        return slope * (np.abs(z) <= _LAST)

    def contains(self, theta):
        inside = (np.abs(theta) < 1.0).all(axis=1)
        r = self._correlations(np.where(inside[:, None], theta, 0.0))
        # What rounding may take from the eigenvalues of a correlation matrix.
        eigenvalue_error = 1e-12
        return inside & (np.linalg.eigvalsh(r)[:, 0] > -eigenvalue_error)

    def from_box(self, theta):
        # Towards the identity, as far as the smallest eigenvalue asks for.
        smallest = np.linalg.eigvalsh(self._correlations(theta))[:, 0]
        return theta * np.minimum(1.0, 0.99 / (1.0 - smallest))[:, None]
