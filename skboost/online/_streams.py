"""Posteriors of a linear predictor's coefficients that take rows in, one after another.

A stream is what is carried from one batch to the next. ``absorb`` makes one update for
each row, ``absorb_batch`` a single one for all rows; both return a new stream and leave
the old one as it was, so a batch that fails costs nothing.
"""

from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
from scipy import sparse

from skboost.families import Component, DiagonalGaussian, FullGaussian
from skboost.online._loops import HUGE, dense_loop, full_loop, sparse_loop


@dataclass(frozen=True)
class Rule:
    """What every step is told; before each, `forgetting` keeps that share of
    information."""

    method: object
    loss: object
    learning_rate: object
    beta: float = 1.0
    forgetting: float = 1.0

    def schedule(self, done, n):
        """Size and share of `n` steps after `done`, (n, 2); a ValueError for rates
        below zero."""
        if isinstance(self.learning_rate, Real):
            rates = np.full(n, float(self.learning_rate))
        else:
            steps = range(done + 1, done + n + 1)
            rates = np.array([self.learning_rate.at(step) for step in steps], float)
        wrong = np.flatnonzero(~(rates > 0.0))
        if len(wrong):
            raise ValueError(
                f"learning_rate must give positive rates; got {rates[wrong[0]]} at "
                f"step {done + wrong[0] + 1}."
            )
        return self.method.schedule(rates, self.beta)


class DivergedError(FloatingPointError, ValueError):
    """The linear predictor grew without bound at the step that the message names."""


def check_bounds(step, eta, failed, size):
    """Raise a `DivergedError` with the step of the row where the loop stopped, if it
    did."""
    if failed >= 0:
        raise DivergedError(
            f"The linear predictor was {eta[failed]:.3g} at step {step}, counted from "
            "1 over the whole stream: the steps overshoot. Use a learning_rate below "
            f"{size:.3g}, or scale the columns of X. The state before this batch is "
            "kept."
        )


class KnownNoise:
    """What streams say of the noise and of responses where it is known."""

    def losses(self, eta, y):
        """Loss of every row at what `absorb` said of it, nats."""
        return self.rule.loss.at(eta, y)

    @property
    def noise_scale(self):
        """Standard deviation of the noise."""
        return self.rule.loss.noise_scale

    @property
    def noise_variance(self):
        """Expected variance of the noise."""
        return self.noise_scale**2

    @property
    def spread_factor(self):
        """What variances of linear predictors are multiplied by."""
        return 1.0

    def predictor_std(self, std):
        """Standard deviations of linear predictors; `std` is in units of the stream."""
        return std

    def response(self, mean, std):
        """Location, scale and degrees of freedom of responses, from predictors."""
        return mean, np.hypot(std, self.noise_scale), np.inf

    @property
    def component(self):
        """The density of the coefficients."""
        return gaussian_of([self])

    def draw(self, n, rng):
        """Draws of the coefficients (n, dim) and of the noise scale (n,)."""
        normal = rng.standard_normal((n, len(self.mean)))
        return self.mean + self._scaled(normal), np.full(n, self.noise_scale)

    def _scaled(self, normal):
        """Normal draws with the covariance."""
        covariance = self.covariance
        if covariance.ndim == 1:
            return normal * np.sqrt(covariance)
        return normal @ np.linalg.cholesky(covariance).T

    @property
    def sound(self):
        """Whether means are finite and covariances positive definite."""
        mean, covariance = self.mean, self.covariance
        if not (np.isfinite(mean).all() and np.isfinite(covariance).all()):
            return False
        if covariance.ndim == 1:
            return bool(covariance.min() > 0.0)
        variances = np.diag(covariance)
        return bool(variances.min() > 0.0) and _has_root(covariance, variances)


def gaussian_of(streams):
    """The Gaussian of the coefficients of streams, one after another."""
    means = np.concatenate([stream.mean for stream in streams])
    covariances = [stream.covariance for stream in streams]
    if covariances[0].ndim == 1:
        family, covariance = DiagonalGaussian(), np.concatenate(covariances)
    else:
        family = FullGaussian()
        covariance = sparse.block_diag(covariances).toarray()
    return Component(family, family.from_moments(means, covariance))


def _has_root(covariance, variances):
    """Whether a covariance has a Cholesky factor beyond rounding."""
    std, dim = np.sqrt(variances), len(variances)
    try:
        # Of differences of large squares nothing may be left but rounding: eigenvalues
        # of a correlation matrix up to this times its size.
        rounding = 1e-14 * dim * np.eye(dim)
        np.linalg.cholesky(covariance / np.outer(std, std) - rounding)
    except np.linalg.LinAlgError:
        return False
    return True


@dataclass(frozen=True)
class DiagonalStream(KnownNoise):
    """A Gaussian with independent coordinates."""

    rule: Rule
    # Standard deviations of the prior, and rows of the method, the mean first.
    scale: np.ndarray
    state: np.ndarray
    # Sum of the means that predicted, each times the weight of its row.
    total: np.ndarray
    # Decay and weight up to which each coordinate's are done, where any are `lazy`;
    # the clock has the log of the decay, and the weight of all rows.
    mark: np.ndarray
    since: np.ndarray
    clock: np.ndarray
    n_steps: int = 0
    lazy: bool = False
    # Whether `total` is the whole sum: not where untouched coordinates moved.
    averages: bool = True

    @classmethod
    def begin(cls, rule, scale):
        """The prior N(0, diag(scale^2))."""
        zeros = np.zeros(len(scale))
        state = rule.method.start(scale)
        return cls(rule, scale, state, zeros, zeros, zeros, np.zeros(2))

    def settled(self):
        """The same stream with nothing outstanding; its arrays are its own."""
        method, clock = self.rule.method, self.clock.copy()
        state, total = self.state.copy(), self.total.copy()
        if self.lazy:
            total += state[0] * (clock[1] - self.since)
            if clock[0] < 0.0:
                method.discount(state, self.scale, np.exp(clock[0] - self.mark))
            clock[0] = 0.0
        return replace(self, state=state, total=total, clock=clock, lazy=False)

    @property
    def mean(self):
        """Means of the coefficients, (dim,)."""
        return self.settled().state[0]

    @property
    def covariance(self):
        """Variances of the coefficients, (dim,)."""
        done = self.settled()
        return self.rule.method.variance(done.state, self.scale)

    @property
    def std(self):
        """Standard deviations of the coefficients, (dim,)."""
        return np.sqrt(self.covariance)

    @property
    def average(self):
        """Average of the means that predicted, (dim,); None where it is not kept."""
        if not self.averages:
            return None
        return self.settled().total / max(self.clock[1], np.finfo(float).tiny)

    def absorb(self, X, y, weight):
        """The stream after all rows, and every linear predictor before its update."""
        schedule = self.rule.schedule(self.n_steps, len(y))
        run = self._sparse if sparse.issparse(X) else self._dense
        eta = np.empty(len(y))
        done, failed = run(X, y, weight, schedule, eta)
        check_bounds(self.n_steps + failed + 1, eta, failed, schedule[failed, 0])
        return replace(done, n_steps=self.n_steps + len(y)), eta

    def _dense(self, X, y, weight, schedule, eta):
        rule, new = self.rule, self.settled()
        failed = dense_loop(type(rule.method), rule.loss.one)(
            X, y, weight, schedule, rule.forgetting, rule.loss.noise_scale,
            new.scale, new.state, new.total, new.clock, eta,
        )  # fmt: skip
        return new, failed

    def _sparse(self, X, y, weight, schedule, eta):
        rule = self.rule
        mark, since = self.mark.copy(), self.since.copy()
        if not self.lazy:
            mark[:], since[:] = 0.0, self.clock[1]
        own = {name: vars(self)[name].copy() for name in ("state", "total", "clock")}
        new = replace(self, mark=mark, since=since, lazy=True, **own)
        # Indices of the machine's own size are looked up much faster.
        indices = X.indices.astype(np.intp)
        failed = sparse_loop(type(rule.method), rule.loss.one)(
            X.data, indices, X.indptr, y, weight, schedule, rule.forgetting,
            rule.loss.noise_scale, new.scale, new.state, new.total, new.mark, new.since,
            new.clock, eta,
        )  # fmt: skip
        still = rule.forgetting == 1.0 and not schedule[:, 1].any()
        return replace(new, averages=self.averages and still), failed

    def absorb_batch(self, X, y, weight):
        """The stream after one update for all rows; as `absorb` in all else."""
        rule, new = self.rule, self.settled()
        method, state, clock = rule.method, new.state, new.clock
        ((size, share),) = rule.schedule(self.n_steps, 1)
        if rule.forgetting < 1.0:
            method.discount(state, new.scale, rule.forgetting)
        squares = X.multiply(X).tocsr() if sparse.issparse(X) else X * X
        variance = method.variance(state, new.scale)
        eta, sd = X @ state[0], np.sqrt(squares @ variance)
        failed = first_out_of_bounds(eta, sd, y)
        check_bounds(self.n_steps + 1, eta, failed, size)
        slope, bend = rule.loss.many(eta, sd, y)
        new.total[:] += weight.sum() * state[0]
        grad, curv = X.T @ (weight * slope), squares.T @ (weight * bend)
        method.step(state, new.scale, variance, size * grad, size * curv, share)
        clock[1] += weight.sum()
        return replace(new, n_steps=self.n_steps + 1), eta


@dataclass(frozen=True)
class FullStream(KnownNoise):
    """A Gaussian with a full covariance, by natural-gradient steps."""

    rule: Rule
    # Precision of the prior, and the precision so far times the mean.
    prior: np.ndarray
    pull: np.ndarray
    mean: np.ndarray
    precision: np.ndarray
    covariance: np.ndarray
    total: np.ndarray
    # Updates, and the weight of all rows.
    clock: np.ndarray
    n_steps: int = 0

    # Arrays that updates leave alone.
    _constant = ("prior",)

    @classmethod
    def begin(cls, rule, scale):
        """The prior N(0, diag(scale^2))."""
        prior, covariance = np.diag(scale**-2.0), np.diag(scale**2.0)
        zeros = np.zeros(len(scale))
        return cls(rule, prior, zeros, zeros, prior, covariance, zeros, np.zeros(2))

    @property
    def std(self):
        """Standard deviations of the coefficients, (dim,)."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def average(self):
        """Average of the means that predicted, (dim,)."""
        return self.total / max(self.clock[1], np.finfo(float).tiny)

    def _copy(self):
        """The same stream with arrays of its own, which an update may write into."""
        own = {
            name: value.copy()
            for name, value in vars(self).items()
            if isinstance(value, np.ndarray) and name not in self._constant
        }
        return replace(self, **own)

    def discounted(self):
        """The stream before an update, with a part of what it knew forgotten."""
        f = self.rule.forgetting
        if f == 1.0:
            return self
        pull, precision = f * self.pull, f * self.precision + (1.0 - f) * self.prior
        covariance = np.linalg.inv(precision)
        return replace(
            self,
            pull=pull,
            mean=covariance @ pull,
            precision=precision,
            covariance=covariance,
        )

    def absorb(self, X, y, weight):
        """As `DiagonalStream.absorb`; sparse rows become dense."""
        new, eta, _ = self._absorbed(dense(X), y, weight)
        return new, eta

    def _absorbed(self, X, y, weight):
        """What `absorb` returns, and the variance of every linear predictor."""
        rule, new = self.rule, self._copy()
        eta, spread = np.empty((2, len(y)))
        schedule = rule.schedule(self.n_steps, len(y))
        failed = full_loop(
            rule.loss.one, X, y, weight, schedule, rule.forgetting,
            rule.loss.noise_scale, new.prior, new.pull, new.mean, new.precision,
            new.covariance, new.total, new.clock, eta, spread,
        )  # fmt: skip
        check_bounds(self.n_steps + failed + 1, eta, failed, schedule[failed, 0])
        return replace(new, n_steps=self.n_steps + len(y)), eta, spread

    def absorb_batch(self, X, y, weight):
        """As `DiagonalStream.absorb_batch`."""
        return self.discounted().updated(dense(X), y, weight)

    def updated(self, X, y, weight):
        """As `absorb_batch`, where nothing is forgotten any more."""
        rule, spread = self.rule, np.einsum("ij,ij->i", X @ self.covariance, X)
        ((size, share),) = rule.schedule(self.n_steps, 1)
        eta, sd = X @ self.mean, np.sqrt(spread)
        check_bounds(self.n_steps + 1, eta, first_out_of_bounds(eta, sd, y), size)
        slope, bend = rule.loss.many(eta, sd, y)
        precision = self.precision + share * (self.prior - self.precision)
        precision += size * (X.T * (weight * bend)) @ X
        pull = X.T @ (weight * (bend * eta - slope))
        pull = (1.0 - share) * self.pull + size * pull
        covariance = np.linalg.inv(precision)
        done = replace(
            self,
            pull=pull,
            mean=covariance @ pull,
            precision=precision,
            covariance=covariance,
            total=self.total + weight.sum() * self.mean,
            clock=self.clock + [1.0, weight.sum()],
            n_steps=self.n_steps + 1,
        )
        return done, eta


def dense(X):
    """As an array."""
    return X.toarray() if sparse.issparse(X) else X


def first_out_of_bounds(eta, sd, y):
    """Position of the first row whose linear predictor is, or -1."""
    wrong = np.flatnonzero(~((np.abs(eta) < HUGE * (1.0 + np.abs(y))) & (sd < np.inf)))
    return wrong[0] if len(wrong) else -1
