"""Rows of two classes or counts, with Gaussian fits under many priors at once.

Under priors that are mixtures of normal ones over scales every coefficient is a linear
predictor itself, whose site is that of its prior.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from skboost._math import bounded_exp
from skboost.proposals._predictors import Moments, Predictors, Primal, linear_predictors
from skboost.proposals._sites import (
    Sites,
    expected_log,
    log_evidence,
    propagated,
    variational,
    without_site,
)
from skboost.targets import ScaleMixture

# Standard deviation of a linear predictor under the prior up to which expectation
# propagation holds; 70,000 never converges.
WIDEST = 5e3


class Gaussians(NamedTuple):
    """Gaussians for each prior, with log evidence; marginal ones have variances
    alone."""

    log_evidence: np.ndarray
    means: np.ndarray
    covariances: np.ndarray

    def of(self, which):
        """The same for some of the priors."""
        return Gaussians(*(values[which] for values in self))


@dataclass(frozen=True)
class SignedRows:
    """Rows (n_rows, dim) and `offset` times the sign of their class, and counts."""

    X: np.ndarray
    weights: np.ndarray
    offset: np.ndarray | float = field(default=0.0, kw_only=True)

    # Whether Gaussians are known by their marginals alone.
    marginal = False

    def evidence(self, mean, variance):
        """What sites are matched to by expectation propagation; see `log_evidence`."""
        return log_evidence(mean + self.offset, variance)

    def expected(self, mean, variance):
        """The same of variational fits; see `expected_log`."""
        return expected_log(mean + self.offset, variance)

    # How often the factor of every site counts.
    counts = property(attrgetter("weights"))

    def in_units(self, scale):
        """The same where columns are divided by these."""
        return replace(self, X=self.X * scale)

    def predictors(self, variances):
        """Linear predictors of the rows under priors with these variances."""
        return linear_predictors(self.X, variances)

    def too_wide(self, predictors):
        """Under which priors expectation propagation would not converge."""
        return predictors.prior_variance().max(axis=1) > WIDEST**2

    def initial(self, n_priors):
        """Sites to begin with."""
        return Sites.initial(n_priors, len(self.X))

    def fitted(self, variances, sites=None, tol=0.01, bounded=True):
        """Predictors under priors with these variances (n_priors, dim), and `Sites`.

        Where expectation propagation does not converge, or the prior is too wide for
        it, the fit is the variational one, and its bound stands for the evidence. If
        not `bounded`, the last sweep stands where it is finite.
        """
        predictors, n_priors = self.predictors(variances), len(variances)
        sites = sites or self.initial(n_priors)
        wide = self.too_wide(predictors)
        near = np.flatnonzero(~wide) if wide.any() else slice(None)
        with np.errstate(all="ignore"):
            found = self._propagated(predictors.of(near), sites.of(near), tol)
        done = self.initial(n_priors)
        done.put(near, found)
        good = done.converged if bounded else np.isfinite(done.log_evidence)
        failed = np.flatnonzero(~good)
        if failed.size:
            start = self.initial(failed.size)
            with np.errstate(all="ignore"):
                bounded = variational(
                    predictors.of(failed), self.counts, start, expected=self.expected
                )
            bounded.log_evidence[~_possible(bounded)] = -np.inf
            done.put(failed, bounded)
        return predictors, done

    def left_out(self, predictors, sites):
        """Log probabilities of every row's own class and the other without the row.

        By its cavity, which is what sites of other rows and the prior leave of its
        linear predictor; (n_priors, n_rows, 2).
        """
        precision, shift = self.counts * sites.precision, self.counts * sites.shift
        given = predictors.moments(precision, shift)
        # Of a row that counts several times, once.
        once = np.minimum(1.0, 1.0 / np.maximum(self.counts, 1e-300))
        variance = np.maximum(given.variance, 1e-12)
        site = once * precision, once * shift
        centre, cavity = without_site(given.mean, variance, *site)
        centre[:, : len(self.X)] += self.offset
        own, other = (log_evidence(sign * centre, cavity)[0] for sign in (1.0, -1.0))
        return np.stack([own, other], axis=2)[:, : len(self.X)]

    def _propagated(self, predictors, sites, tol):
        fit = partial(propagated, weights=self.counts, evidence=self.evidence)
        try:
            found = fit(predictors, sites=sites, tol=tol)
            slow = np.flatnonzero(~found.converged)
            if slow.size:
                again = self.initial(slow.size)
                some = predictors.of(slow)
                again = fit(some, sites=again, tol=tol, damping=0.5, max_sweeps=200)
                found.put(slow, again)
        except np.linalg.LinAlgError:
            # Sites that overflow: nothing has converged.
            return self.initial(len(sites.converged))
        found.converged[:] &= _possible(found)
        return found

    def gaussians(self, variances, sites=None, bounded=True):
        """`Gaussians` under these priors, from given sites; see `fitted`."""
        return self.given_sites(*self.fitted(variances, sites, bounded=bounded))

    def given_sites(self, predictors, sites):
        """`Gaussians` that sites amount to."""
        precision, shift = self.counts * sites.precision, self.counts * sites.shift
        given = predictors.marginals if self.marginal else predictors.posterior
        return Gaussians(sites.log_evidence, *given(precision, shift))


def _possible(sites):
    """Where the evidence of classes is one: rounding of huge weights exceeds it."""
    return sites.log_evidence <= 0.0


class WideRows(SignedRows):
    """`SignedRows` with so many parameters that a covariance matrix has no room."""

    marginal = True


@dataclass(frozen=True)
class CountRows(SignedRows):
    """Rows of Poisson counts with log exposures; fits are variational, evidence a
    bound."""

    y: np.ndarray
    marginal: bool = False

    def initial(self, n_priors):
        """Sites of rates that are the counts themselves, but for zeros.

        However little a row counts: exponentials have no use for the prior's width.
        """
        rate = self.y + 0.5
        sites = Sites.initial(n_priors, len(rate))
        sites.precision[:] = rate / np.clip(self.weights, 1e-30, 1.0)
        sites.shift[:] = sites.precision * (np.log(rate) - self.offset)
        return sites

    def expected(self, mean, variance):
        """Expected log likelihoods, slopes and bends where predictors are Gaussian."""
        eta, y = mean + self.offset, self.y
        rate = bounded_exp(eta + 0.5 * variance)
        return y * eta - rate - (xlogy(y, y) - y), y - rate, rate

    def fitted(self, variances, sites=None, tol=0.01, bounded=True):
        """See `SignedRows.fitted`; a LinAlgError where numbers overflow."""
        predictors = self.predictors(variances)
        sites = sites or self.initial(len(variances))
        with np.errstate(all="ignore"):
            parts = predictors, self.weights, sites, 0.1 * tol
            found = variational(*parts, expected=self.expected)
        if not np.isfinite(found.log_evidence).all():
            raise np.linalg.LinAlgError("rates overflow.")
        return predictors, found


@dataclass(frozen=True)
class MixedDual(Predictors):
    """Rows, and after them coefficients of deviation `width` in units of the prior.

    By the covariance matrix of the rows: for more coefficients than rows.
    """

    width: float

    def of(self, which):
        """See `Predictors`."""
        return MixedDual(self.scaled[which], self.scales[which], self.width)

    def _solved(self, precision, shift):
        """Means and, without rows, variances of coefficients in units of the prior.

        With them what rows take from these, twice a matrix of rows, and
        ``ln |I + T K|``.
        """
        n, back = self.scaled.shape[1], self.scaled.transpose(0, 2, 1)
        own = 1.0 + self.width**2 * precision[:, n:]
        free, root = 1.0 / own, np.sqrt(precision[:, :n])
        narrowed = self.scaled * free[:, None, :]
        inner = root[:, :, None] * (narrowed @ back) * root[:, None, :]
        factor = np.linalg.cholesky(inner + np.eye(n))
        log_det = 2.0 * np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        log_det += np.log(own).sum(axis=1)
        taken = np.linalg.inv(factor) @ (root[:, :, None] * narrowed)
        pulled = self._pulled(shift[:, :n]) + self.width * shift[:, n:]
        seen = taken @ pulled[:, :, None]
        mean = free * pulled - (taken.transpose(0, 2, 1) @ seen)[:, :, 0]
        return mean, free, taken, log_det

    def moments(self, precision, shift):
        """`Moments` given sites."""
        mean, free, taken, log_det = self._solved(precision, shift)
        back = self.scaled.transpose(0, 2, 1)
        rows = np.einsum("gnp,gp,gnp->gn", self.scaled, free, self.scaled)
        rows = rows - ((taken @ back) ** 2).sum(axis=1)
        own = self.width**2 * (free - (taken**2).sum(axis=1))
        mean = (self.scaled @ mean[:, :, None])[:, :, 0], self.width * mean
        return Moments(np.hstack(mean), np.hstack([rows, own]), log_det)

    def marginals(self, precision, shift):
        """Means and variances (n_priors, dim) of the parameters given sites."""
        mean, free, taken, _ = self._solved(precision, shift)
        variance = np.maximum(free - (taken**2).sum(axis=1), 1e-12 * free)
        return self.scales * mean, self.scales**2 * variance

    def posterior(self, precision, shift):
        """Means (n_priors, dim) and covariances of the parameters given sites."""
        mean, free, taken, _ = self._solved(precision, shift)
        taken = taken * self.scales[:, None, :]
        covariance = -taken.transpose(0, 2, 1) @ taken
        every = np.arange(free.shape[1])
        covariance[:, every, every] += self.scales**2 * free
        return self.scales * mean, covariance


@dataclass(frozen=True)
class MixedRows(SignedRows):
    """`SignedRows` of coefficients under a `ScaleMixture`, `marginal` without room."""

    mixture: ScaleMixture
    marginal: bool = False

    @property
    def counts(self):
        """How often the factor of every site counts."""
        return np.append(self.weights, np.ones(self.X.shape[1]))

    def evidence(self, mean, variance):
        """`log_evidence` of rows and, after them, of the prior's factors."""
        return self._of_both(
            super().evidence, self.mixture.log_evidence, mean, variance
        )

    def expected(self, mean, variance):
        """`expected_log` of rows and, after them, of the prior's factors."""
        return self._of_both(
            super().expected, self.mixture.expected_log, mean, variance
        )

    def _of_both(self, of_rows, of_prior, mean, variance):
        n = len(self.X)
        rows = of_rows(mean[:, :n], variance[:, :n])
        prior = of_prior(mean[:, n:], variance[:, n:])
        return tuple(map(np.hstack, zip(rows, prior, strict=True)))

    def initial(self, n_priors):
        """Sites to begin with, those of the coefficients after those of the rows."""
        n_rows, dim = self.X.shape
        sites = Sites.initial(n_priors, n_rows + dim)
        sites.precision[:, n_rows:], sites.shift[:, n_rows:] = 1.0, 0.0
        return sites

    def too_wide(self, predictors):
        """See `SignedRows`: the widest part of a prior says nothing."""
        return np.zeros(len(predictors.scales), dtype=bool)

    def predictors(self, variances):
        """Those of the rows and the coefficients, for squared scales of the prior."""
        width = self.mixture.width
        scales = width * np.sqrt(variances)
        if len(self.X) < scales.shape[1]:
            return MixedDual(self.X * scales[:, None, :], scales, width)
        own = np.tile(width * np.eye(scales.shape[1]), (len(scales), 1, 1))
        rows = np.concatenate([self.X * scales[:, None, :], own], axis=1)
        return Primal(rows, scales)
