"""Expectation propagation for several classes, on contrasts with the row's own class.

Where classes are far apart the softmax is a product of steps in the contrasts
``c_k = f_y - f_k`` (one-vs-each, Titsias 2016), so that a row has a site for each,
matched in closed form as with two classes. Each is shifted by what other classes leave.
Second derivatives of the softmax then couple the sites of a row, and its evidence is
corrected by quasi-random nodes.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import log_expit

from skboost.proposals._predictors import ClassDual, ClassPrimal
from skboost.proposals._signed_rows import WIDEST, Gaussians, SignedRows
from skboost.proposals._sites import Sites, log_evidence, without_site

# Precision of the own class, over that of all contrasts, which makes an arrow of a
# site's precision: contrasts are independent.
_ARROW = 1e3
# Precision of a contrast below which it says nothing.
_LEAST = 1e-9
# Weights from which rounding in the dual form exceeds variances.
_HEAVY = 1e6
# Sweeps after which hardly anything is left of independent contrasts.
_TURNED = 4
# Of sweeps: damping of the first and later ones, and how many there are.
_FIRST, _LATER, _SWEEPS, _COUPLED = 0.5, 0.7, 60, 25
# Standard deviations by which means of contrasts may miss: after coupling, since rows
# may all miss alike, and where sweeps have not converged.
_NEAR, _MISSED = 0.003, 0.1


@dataclass(frozen=True)
class ClassRows:
    """Rows with the index of their class and counts; `nodes` (K - 1, n_nodes) are
    normal."""

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    nodes: np.ndarray

    marginal = False

    @property
    def n_classes(self):
        """How many classes there are."""
        return len(self.nodes) + 1

    @cached_property
    def order(self):
        """Classes (n_rows, K), the row's own one first."""
        return (self.y[:, None] + np.arange(self.n_classes)) % self.n_classes

    def initial(self, n_priors):
        """Sites to begin with, (n_priors, n_rows, K - 1)."""
        return Sites.initial(n_priors, len(self.X), self.n_classes - 1)

    def in_units(self, scale):
        """The same where columns are divided by these, those of any class."""
        return replace(self, X=self.X * scale[: self.X.shape[1]])

    def predictors(self, variances):
        """Predictors under priors with these variances of all parameters."""
        n, p = self.X.shape
        scales = np.sqrt(variances[:, :p])
        dim = self.n_classes * p
        # Products that a sweep takes in either form.
        fewer = 4 * self.n_classes * n**3 < dim**3 + n * dim**2
        dual = fewer and self.weights.max(initial=0.0) < _HEAVY
        form = ClassDual if dual else ClassPrimal
        return form(self.X * scales[:, None, :], scales)

    gaussians = SignedRows.gaussians

    def fitted(self, variances, sites=None, tol=0.01, bounded=True):
        """Predictors under priors with these variances (n_priors, dim), and `Sites`.

        Where expectation propagation does not converge, or the prior is too wide for
        it, the lower bound of its Gaussian stands for the evidence. Means of contrasts
        miss those of their sites by three times `tol` standard deviations at most.
        """
        predictors, n_priors = self.predictors(variances), len(variances)
        sites = sites or self.initial(n_priors)
        with np.errstate(all="ignore"):
            return predictors, self._propagated(predictors, sites, 3.0 * tol)

    # --- sweeps over all rows at once

    def _moments(self, predictors, a, h):
        """Means and covariances of contrasts, and the log determinant."""
        given = predictors.moments(*(self.weights[:, None] * part for part in (a, h)))
        order = self.order[None]
        mean = np.take_along_axis(given.mean, order, axis=2)
        covariance = np.take_along_axis(given.covariance, order[..., None], axis=2)
        covariance = np.take_along_axis(covariance, order[:, :, None], axis=3)
        cross = covariance[..., :1, :1] - covariance[..., :1, 1:]
        covariance = covariance[..., 1:, 1:] - covariance[..., 1:, :1] + cross
        variance = np.diagonal(covariance, axis1=2, axis2=3)
        return mean[..., :1] - mean[..., 1:], variance, covariance, given.log_det

    def _by_class(self, own, others):
        """Parts of sites in the order of classes, from own class and others."""
        out = np.empty((*others.shape[:2], self.n_classes))
        both = np.concatenate([own[..., None], others], axis=2)
        np.put_along_axis(out, self.order[None], both, axis=2)
        return out

    def _arrows(self, precision, shift):
        """Sites of independent contrasts as those of predictors, a and h."""
        own = _ARROW * precision.sum(axis=2)
        return (
            self._by_class(own, precision),
            self._by_class(shift.sum(axis=2), -shift),
        )

    def _propagated(self, predictors, sites, tol):
        """Sites by sweeps; the evidence is that of the last of every prior."""
        try:
            return self._swept(predictors, sites, tol)
        except np.linalg.LinAlgError:
            n_priors = len(sites.converged)
            if n_priors == 1:
                return self._failed(predictors)
        # One overflows: each for itself.
        done = self.initial(n_priors)
        for g in range(n_priors):
            here = np.array([g])
            found = self._propagated(predictors.of(here), sites.of(here), tol)
            done.put(here, found)
        return done

    def _swept(self, predictors, sites, tol):
        done, left = self.initial(len(sites.converged)), np.arange(len(sites.converged))
        here, state, offset = predictors, (sites.precision, sites.shift), None
        for sweep in range(_SWEEPS):
            given = self._moments(here, *self._arrows(*state))
            mean, variance = given[0], np.maximum(given[1], 1e-12)
            now = _others(mean)
            offset = now if offset is None else 0.5 * (offset + now)
            one = _matched(mean, variance, *state, offset)
            miss = (np.abs(one.tilted - mean) / np.sqrt(variance)).max(axis=(1, 2))
            ended = (miss < tol) | ~np.isfinite(miss) | (sweep == _SWEEPS - 1)
            for i in np.flatnonzero(ended):
                which = np.array([i])
                parts = *(part[which] for part in (*given, *state, offset)), miss[i]
                found = self._judged(here.of(which), parts, one.log_evidence[which])
                done.put(left[which], found)
            if ended.all():
                break
            rate = _FIRST if sweep < 2 else _LATER
            new = one.precision, one.shift
            state = [
                old + rate * (to - old) for old, to in zip(state, new, strict=True)
            ]
            if ended.any():
                left, here, offset = left[~ended], here.of(~ended), offset[~ended]
                state = [part[~ended] for part in state]
        return done

    def _judged(self, predictors, parts, value):
        """Sites of one prior, where sweeps ended, with their evidence."""
        *given, precision, shift, offset, miss = parts
        if not np.isfinite(miss):
            return self._failed(predictors)
        term = value + 0.5 * shift * given[0]
        ratio, bound = self._corrections(given, precision, shift, offset)
        evidence = self.weights @ (term[0].sum(axis=1) + ratio) - 0.5 * given[3]
        wide = predictors.prior_variance().max() > WIDEST**2
        if wide or miss > _MISSED or not evidence[0] <= 0.0:
            return self._bounded(given, precision, shift, bound)
        return Sites(precision, shift, evidence, np.ones(1, bool), np.zeros(1, bool))

    def _bounded(self, given, precision, shift, bound):
        """Sites whose evidence is the lower bound of their Gaussian."""
        least = self.weights @ (bound + 0.5 * (shift * given[0])[0].sum(axis=1))
        least = np.minimum(least - 0.5 * given[3], 0.0)
        least[np.isnan(least)] = -np.inf
        return Sites(precision, shift, least, np.zeros(1, bool), np.ones(1, bool))

    def _failed(self, predictors):
        """Sites to begin with, where sweeps overflow."""
        start = self.initial(1)
        precision, shift = start.precision, start.shift
        given = self._moments(predictors, *self._arrows(precision, shift))
        _, bound = self._corrections(given, precision, shift, np.zeros(shift.shape))
        return self._bounded(given, precision, shift, bound)

    def _corrections(self, given, precision, shift, offset):
        """For every row ``ln E(f/t) / E(g/t)``, and ``E ln (f/t)``, under the
        posterior.

        f is the softmax, g the product of its contrasts' factors, and t the site.
        """
        mean, _, covariance, _ = given
        values, vectors = np.linalg.eigh(covariance[0])
        roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        c = mean[0][:, :, None] + roots @ self.nodes
        top = np.maximum(-c.min(axis=1), 0.0)
        total = np.exp(-top) + np.exp(-c - top[:, None]).sum(axis=1)
        softmax = -top - np.log(total)
        site = shift[0][:, :, None] * c - 0.5 * precision[0][:, :, None] * c * c
        site = site.sum(axis=1)
        product = log_expit(c + offset[0][:, :, None]).sum(axis=1)
        ratio = _log_mean(softmax - site) - _log_mean(product - site)
        return ratio, (softmax - site).mean(axis=1)

    # --- sites of a row that depend on each other

    def _sites(self, predictors, sites):
        """Sites of predictors, a and h, once those of every row are coupled."""
        a, h = self._arrows(sites.precision, sites.shift)
        some = np.flatnonzero(sites.converged)
        if some.size:
            with np.errstate(all="ignore"):
                a[some], h[some] = self._coupled(predictors.of(some), sites.of(some))
        return a, h

    def given_sites(self, predictors, sites):
        """`Gaussians` that sites amount to."""
        a, h = self._sites(predictors, sites)
        w = self.weights[:, None]
        return Gaussians(sites.log_evidence, *predictors.posterior(w * a, w * h))

    def _coupled(self, predictors, sites):
        """Sites with the softmax's precision, as they were where sweeps fail."""
        try:
            return self._coupled_sweeps(predictors, sites)
        except np.linalg.LinAlgError:
            if len(sites.converged) == 1:
                return self._arrows(sites.precision, sites.shift)
        each = np.arange(len(sites.converged))[:, None]
        pairs = [self._coupled(predictors.of(g), sites.of(g)) for g in each]
        return tuple(map(np.concatenate, zip(*pairs, strict=True)))

    def _coupled_sweeps(self, predictors, sites):
        a, h = self._arrows(sites.precision, sites.shift)
        found, settled = (a.copy(), h.copy()), np.zeros(len(a), dtype=bool)
        own = _ARROW * sites.precision.sum(axis=2)
        parts, offset = [own, sites.precision, -sites.shift], None
        for sweep in range(_COUPLED):
            given = self._moments(predictors, a, h)
            mean, variance = given[0], np.maximum(given[1], 1e-12)
            now = _others(mean)
            offset = now if offset is None else 0.5 * (offset + now)
            held = _of_contrasts(mean, variance, *parts)
            one = _matched(mean, variance, *held, offset)
            miss = (np.abs(one.tilted - mean) / np.sqrt(variance)).max(axis=(1, 2))
            near = 10.0 * _NEAR if sweep == _COUPLED - 1 else _NEAR
            new = (sweep >= _TURNED) & (miss < near) & ~settled
            found[0][new], found[1][new] = a[new], h[new]
            settled |= new
            if settled.all():
                break
            rate = _FIRST if sweep < 2 else _LATER
            own, others = _softmax_precision(one.tilted, one.precision)
            linear = _pressed(own, others, -one.tilted) - one.slope
            parts = [
                old + rate * (new - old)
                for old, new in zip(parts, (own, others, linear), strict=True)
            ]
            own, others, linear = parts
            a = self._by_class(own, others)
            h = self._by_class(-linear.sum(axis=2), linear)
        return found


def _of_contrasts(mean, variance, own, others, linear):
    """Precision and shift of a row's site in every contrast, the others held."""
    total = own[..., None] + others.sum(axis=2, keepdims=True)
    curvature = np.minimum(others * (1.0 - others / total), 0.95 / variance)
    slope = _pressed(own, others, -mean) - linear
    return curvature, slope + curvature * mean


@dataclass(frozen=True)
class _Matched:
    """What sites of contrasts should be, given what is known without them."""

    log_evidence: np.ndarray
    slope: np.ndarray
    tilted: np.ndarray
    precision: np.ndarray
    shift: np.ndarray


def _matched(mean, variance, precision, shift, offset):
    """`_Matched` of contrasts with these moments and sites."""
    centre, cavity = without_site(mean, variance, precision, shift)
    value, slope, bend = log_evidence(centre + offset, cavity)
    value = value + 0.5 * np.log(cavity / variance)
    value += 0.5 * (centre**2 / cavity - mean**2 / variance)
    narrowed = np.maximum(1.0 - bend * cavity, 1e-12)
    new = np.maximum(bend / narrowed, _LEAST)
    shifted = slope / narrowed + new * centre
    return _Matched(value, slope, centre + cavity * slope, new, shifted)


def _others(contrasts):
    """``ln(1 + sum_(l != k) exp(-c_l))`` for every contrast k."""
    top = np.maximum(-contrasts.min(axis=2, keepdims=True), 0.0)
    parts = np.exp(-contrasts - top)
    n = parts.shape[2]
    rest = parts @ (np.ones((n, n)) - np.eye(n)) + np.exp(-top)
    return top + np.log(np.maximum(rest, 1e-300))


def _softmax_precision(contrasts, precision):
    """Sites' precision of own class and others, whose second derivatives are these."""
    top = np.maximum(-contrasts.min(axis=2, keepdims=True), 0.0)
    share = np.exp(-contrasts - top)
    own_share = np.exp(-top[..., 0])
    total = share.sum(axis=2) + own_share
    share, own_share = share / total[..., None], own_share / total
    others = np.maximum(precision / np.maximum(1.0 - share, 1e-12), _LEAST)
    ratio = own_share / np.maximum(1.0 - own_share, 1e-12)
    own = others.sum(axis=2) * np.clip(ratio, 1e-9, _ARROW)
    return own, others


def _pressed(own, others, predictors):
    """The site's precision times predictors of others, where the own one is zero."""
    total = own + others.sum(axis=2)
    mean = (others * predictors).sum(axis=2) / total
    return others * (predictors - mean[..., None])


def _log_mean(logs):
    top = logs.max(axis=-1, keepdims=True)
    return top[..., 0] + np.log(np.exp(logs - top).mean(axis=-1))
