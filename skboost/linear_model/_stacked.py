"""Forecasts of several classes from modes at several scales, chosen by left-out rows.

Under one normal prior with a common scale the mode at every scale is the start of the
next, and what it says of a row without that row follows from the Hessian there. The
weights of the scales are those under which rows that were left out are most probable
(stacking; Yao, Vehtari, Simpson and Gelman 2018, equation 4).
"""

import numpy as np
from scipy.linalg import cho_factor, lapack

from skboost._math import log_sum_exp, responsibilities
from skboost._solver import climb
from skboost.targets import class_contrasts

# Values of ln s around the scale of the prior.
_LOG_SCALES = np.arange(-3.0, 3.5)
# Of a search for a mode: nats by which the last step has to gain, and steps at most.
_TOL, _MOST_STEPS = 1e-7, 500
# Steps of expectation maximisation for the weights, rows from which these are longer,
# and the log probability below which a row that is left out counts no less.
_EM_STEPS, _MANY, _LEAST = 30, 100.0, np.log(1e-12)
# Weights of scales up to which they are left out.
_LIGHTEST = 1e-3


def stacked_modes(X, y, weight, n_classes, scale, intercept_scale, temperature=1.0):
    """Weights (n_modes,) and parameters (n_modes, K, n_features + 1) of modes.

    Of rows (n, n_features) of classes y, 0 to K - 1, that count by their weights. The
    prior of the coefficients has standard deviations ``scale * s`` (n_features,), that
    of an intercept at the centre of the columns `intercept_scale`; without an intercept
    that is None. The temperature is the power of the likelihood.
    """
    centre = np.zeros(X.shape[1])
    if intercept_scale is not None:
        centre = weight @ X / weight.sum()
    power = temperature * np.minimum(weight, 1.0)
    weight, counts = temperature * weight, weight
    rows = _Rows((X - centre) * scale, y, weight, n_classes, intercept_scale)
    found, logs, start = [], [], None
    for s in np.exp(_LOG_SCALES):
        start = rows.mode(s, start)
        found.append(start)
        logs.append(rows.left_out(s, start, power))
    weights = stacking_weights(np.array(logs), counts)
    kept = weights > _LIGHTEST
    modes = [rows.parameters(found[k], scale, centre) for k in np.flatnonzero(kept)]
    return weights[kept] / weights[kept].sum(), np.array(modes)


def stacking_weights(logs, weight):
    """Weights of columns under which rows are most probable together.

    Of log probabilities (n_scales, n) of rows that count by `weight` (n,). Few steps
    do not follow few rows too far; of many rows they are longer, while they gain.
    """
    share = tried = np.zeros((1, len(logs)))
    power, best = 1.0, -np.inf
    longest = max(power, weight.sum() / _MANY)
    for _ in range(_EM_STEPS):
        tried = tried - log_sum_exp(tried)
        parts, total = responsibilities((logs + tried.T).T)
        if weight @ total >= best:
            best, share, power = weight @ total, tried, min(2.0 * power, longest)
            step = np.log(np.maximum(weight @ parts, 1e-300)) - share
        else:
            power = max(1.0, 0.25 * power)
        tried = share + power * step
    return responsibilities(share + step)[0][0]


class _Rows:
    """Rows in coordinates of their principal components, ones of an intercept last.

    Parameters are contrasts of classes, (n_coordinates, K - 1): of predictors that all
    classes share nothing is seen, and the prior's mode is zero.
    """

    def __init__(self, X, y, weight, n_classes, intercept_scale):
        _, sizes, turn = np.linalg.svd(X * np.sqrt(weight)[:, None], False)
        self.turn = turn[sizes > 1e-10 * max(sizes[0], 1e-300)].T
        ones = [np.ones((len(X), 1))] * (intercept_scale is not None)
        self.Z = np.hstack([X @ self.turn, *ones])
        self.codes, self.weight = np.eye(n_classes)[y], weight
        self.contrasts = class_contrasts(n_classes)
        self.intercept_scale = intercept_scale
        # Boehning's bound of the Hessian is diagonal here, but for the intercept.
        self.bound = 0.5 * weight @ self.Z**2

    def _precision(self, scale):
        """Of the prior of every coordinate."""
        precision = np.full(self.Z.shape[1], scale**-2.0)
        if self.intercept_scale is not None:
            precision[-1] = self.intercept_scale**-2.0
        return precision

    def mode(self, scale, start=None):
        """The mode under a prior of this scale, from that at another one."""
        precision = self._precision(scale)[:, None]
        unit = (self.bound[:, None] + precision) ** -0.5
        shape = len(unit), self.contrasts.shape[1]

        def value_and_gradient(z):
            theta = unit * z.reshape(shape)
            eta = self.Z @ theta @ self.contrasts.T
            p, total = responsibilities(eta)
            rest = (self.weight[:, None] * (self.codes - p)) @ self.contrasts
            pulled = precision * theta
            value = self.weight @ ((self.codes * eta).sum(axis=1) - total)
            value -= 0.5 * np.sum(theta * pulled)
            return value, (unit * (self.Z.T @ rest - pulled)).ravel()

        start = np.zeros(shape) if start is None else start
        options = {"maxiter": _MOST_STEPS, "maxcor": 20}
        z, _ = climb(value_and_gradient, (start / unit).ravel(), options, _TOL)
        return unit * z.reshape(shape)

    def left_out(self, scale, theta, power):
        """Log probabilities (n,) of the rows' classes by the mode without each.

        Of a row its likelihood to this power (n,) is left out. A Newton step from the
        mode of all: exact for a likelihood that is quadratic around it.
        """
        p, _ = responsibilities(self.Z @ theta @ self.contrasts.T)
        bend = p[:, :, None] * (np.eye(p.shape[1]) - p[:, None, :])
        bend = self.contrasts.T @ bend @ self.contrasts
        n, m = self.Z.shape[1], bend.shape[1]
        hessian = np.empty((m, n, m, n))
        for a, b in zip(*np.triu_indices(m), strict=True):
            block = self.Z.T @ ((self.weight * bend[:, a, b])[:, None] * self.Z)
            hessian[a, :, b], hessian[b, :, a] = block, block.T
        hessian = hessian.reshape(m * n, m * n)
        hessian[np.diag_indices(m * n)] += np.tile(self._precision(scale), m)
        inverse, _ = lapack.dpotri(cho_factor(hessian, lower=True)[0], lower=1)
        inverse = (np.tril(inverse) + np.tril(inverse, -1).T).reshape(m, n, m, n)
        known = np.empty((len(self.Z), m, m))
        for a, b in zip(*np.tril_indices(m), strict=True):
            own = np.einsum("ij,ij->i", self.Z @ inverse[a, :, b], self.Z)
            known[:, a, b] = known[:, b, a] = own
        bend, rest = power[:, None, None] * bend, power[:, None] * (p - self.codes)
        rest = (rest @ self.contrasts)[:, :, None]
        moved = known @ np.linalg.solve(np.eye(m) - bend @ known, rest)
        eta = (self.Z @ theta + moved[:, :, 0]) @ self.contrasts.T
        return np.maximum((self.codes * eta).sum(axis=1) - log_sum_exp(eta), _LEAST)

    def parameters(self, theta, scale, centre):
        """Coefficients, and the intercept at the zeros of the columns, (K, .)."""
        theta = self.contrasts @ theta.T
        coef = (theta[:, : self.turn.shape[1]] @ self.turn.T) * scale
        if self.intercept_scale is None:
            return coef
        return np.column_stack([coef, theta[:, -1] - coef @ centre])
