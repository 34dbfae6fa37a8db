"""Gaussian fits for every value of a scale, and the scale's posterior by evidence."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.interpolate import splev, splrep
from scipy.special import xlogy

from skboost._math import bounded_exp
from skboost.expectation_propagation._fits import (
    Sites,
    propagated,
    variational,
    without_site,
)
from skboost.expectation_propagation._predictors import linear_predictors
from skboost.expectation_propagation._probits import expected_log, log_evidence

# Values of ln s above that of the prior's own scale which are tried first, and the step
# beyond them. Larger scales are seldom likely, and cost the most.
_STEP = 1.35
_COARSE = np.arange(-3.0, 2.5, _STEP)
_FARTHEST = 12
# Nats below the highest density of ln s down to which it has nodes.
_DROP = 6.0
# Values that were placed for another prior will do where their ends are so far below.
_ENOUGH = 5.0
# What is so much lower is as good as that much.
_FAR = 1e3
# Nodes at least, and the largest distance of two in ln s.
_LEAST, _SPACING = 8, 0.6
# Where they turn out to end too early by a larger share of what they cover, they are
# placed anew, so many times at most.
_NEAR, _ROUNDS = 0.1, 3
# Of convergence where only the evidence is wanted.
_ROUGH = 0.02
# Standard deviation of a linear predictor under the prior up to which expectation
# propagation holds; 70,000 never converges.
_WIDEST = 5e3


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

    @property
    def counts(self):
        """How often the factor of every site counts."""
        return self.weights

    def in_units(self, scale):
        """The same where columns are divided by these."""
        return replace(self, X=self.X * scale)

    def predictors(self, variances):
        """Linear predictors of the rows under priors with these variances."""
        return linear_predictors(self.X, variances)

    def too_wide(self, predictors):
        """Under which priors expectation propagation would not converge."""
        return predictors.prior_variance().max(axis=1) > _WIDEST**2

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
        near = np.flatnonzero(~self.too_wide(predictors))
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


class ScaleNodes(NamedTuple):
    """Values of ln s, their probabilities, and the Gaussians of the parameters.

    ``given(which)`` are the Gaussians of some, `log_evidence` is averaged over the
    scale, and `bounded` says where a lower bound stands for it. `sites` are those of
    the rows, and `near` has all values and sites, those without a Gaussian, too.
    """

    log_s: np.ndarray
    weights: np.ndarray
    given: Callable
    log_evidence: float
    bounded: np.ndarray
    sites: Sites | None = None
    near: tuple = ()

    @property
    def gaussians(self):
        """Of all values."""
        return self.given(slice(None))


def scale_nodes(
    rows, variances_at, log_prior, centre, near=None, lightest=0.0, cuts=lambda: False
):
    """`ScaleNodes` of a scale s whose log has the density `log_prior`.

    ``variances_at(log_s)`` are those of the parameters, `centre` is the logarithm of
    the prior's own scale. Few nodes show where the posterior of ln s is, and nodes at
    equal distances cover it; their probabilities are those of the evidence. Where it is
    near other `ScaleNodes` of the same rows, the values are theirs where they cover it.
    Those of a probability of `lightest` at most have no Gaussian. Where ``cuts()`` says
    that limits are met, the values that are fitted will do.
    """
    if near is None:
        nodes = centre + _COARSE
        sites = rows.initial(len(nodes))
        predictors, sites = rows.fitted(variances_at(nodes), sites, tol=_ROUGH)
    else:
        nodes, sites = near.near
        predictors, sites = rows.fitted(variances_at(nodes), sites)
    n_rounds, height = 0, log_prior(nodes) + sites.log_evidence
    ends = max(height[0], height[-1]) < height.max() - _ENOUGH
    if (near is None or not ends) and not cuts():
        n_rounds, known = _ROUNDS, _widened(rows, variances_at, log_prior, nodes, sites)
        low, high = _covered(*known, log_prior)
    for _ in range(n_rounds):
        n_nodes = max(_LEAST, 1 + int(np.ceil((high - low) / _SPACING)))
        nodes = np.linspace(low, high, n_nodes)
        nearest = np.abs(nodes[:, None] - known[0]).argmin(axis=1)
        variances = variances_at(nodes)
        predictors, sites = rows.fitted(variances, known[1].of(nearest))
        known = _joined(*known, nodes, sites)
        low, high = _covered(*known, log_prior)
        near_enough = _NEAR * (nodes[-1] - nodes[0])
        if nodes[0] - low + high - nodes[-1] < near_enough or cuts():
            break
    height = sites.log_evidence + log_prior(nodes)
    weights = np.exp(height - height.max())
    total = weights.sum()
    weights = weights / total
    some = np.flatnonzero(weights > lightest)
    log_evidence = height.max() + np.log(total * (nodes[1] - nodes[0]))

    def given(which):
        return rows.given_sites(predictors.of(some[which]), sites.of(some[which]))

    own = sites.of(some)
    parts = nodes[some], weights[some], given, log_evidence, own.bounded, own
    return ScaleNodes(*parts, (nodes, sites))


def _widened(rows, variances_at, log_prior, log_s, sites):
    """Values of ln s and more, until the posterior ends between the outermost."""
    for _ in range(_FARTHEST):
        height = sites.log_evidence + log_prior(log_s)
        # Small scales leave the evidence as it is, and all that the prior asks for can
        # be fitted at once.
        below = log_s[0] - _STEP * np.arange(_FARTHEST)
        falls = sites.log_evidence[0] + log_prior(below) <= height.max() - _DROP
        below = below[1 : 1 + np.argmax(np.append(falls[:-1], True))]
        above = log_s[-1:] + _STEP
        more = np.append(below, above[height[-1:] > height.max() - _DROP])
        if not more.size:
            break
        nearest = np.abs(more[:, None] - log_s).argmin(axis=1)
        _, new = rows.fitted(variances_at(more), sites.of(nearest), tol=_ROUGH)
        log_s, sites = _joined(log_s, sites, more, new)
    return log_s, sites


def _joined(log_s, sites, more, new):
    """Known values and others in their order, of which the others count where near."""
    away = np.abs(log_s[:, None] - more).min(axis=1) > 1e-2
    log_s, sites = np.append(log_s[away], more), sites.of(away)
    order = np.argsort(log_s)
    parts = [
        np.concatenate([values, getattr(new, name)])[order]
        for name, values in vars(sites).items()
    ]
    return log_s[order], type(sites)(*parts)


def _covered(log_s, sites, log_prior):
    """Ends of the part of ln s whose density is within some nats of the highest."""
    height = sites.log_evidence + log_prior(log_s)
    # Far below, where fits fail, it is of no use how far.
    height = np.fmax(height, max(-1e300, np.fmax.reduce(height)) - _FAR)
    fine = np.linspace(log_s[0], log_s[-1], 1000)
    smooth = splev(fine, splrep(log_s, height))
    inside = fine[smooth >= smooth.max() - _DROP]
    return inside[0], inside[-1]
