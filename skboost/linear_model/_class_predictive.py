"""Posterior predictive of classifiers: integrals over a mixture.

With two classes every quantity is one-dimensional per component. Of more classes
Gaussian components are averaged over fixed quasi-random nodes for the K - 1 contrasts
of each row. Everything else takes fixed quasi-random draws of the posterior.
"""

from functools import cached_property, partial

import numpy as np
from scipy.special import expit, log_expit, log_softmax, logsumexp, softmax, xlogy

from skboost._math import log_sum_exp
from skboost.families import DiagonalGaussian
from skboost.linear_model._count_predictive import log_mixed_probability
from skboost.linear_model._merged import merged_parts
from skboost.linear_model._predictive import (
    N_DRAWS,
    Predictive,
    mixture_parts,
    mixture_quantiles,
    posterior_draws,
)
from skboost.serving import (
    BinaryClassifier,
    ContrastsClassifier,
    ContrastsPart,
    DrawsPart,
    GaussianPart,
    LaplacePart,
    SoftmaxClassifier,
    StudentTPart,
    shares,
)
from skboost.targets import (
    NormalNoise,
    class_contrasts,
    contrast_roots,
    entropy_expectation,
    log_laplace_sigmoid,
    log_sigmoid_expectation,
    log_student_t_sigmoid,
    nodes_of_mixture,
)


def class_predictive(mixture, fit_intercept, classes, sharpening=1.0, merged=None):
    """The predictive of a mixture over classes x (coefficients, intercept).

    With two classes, over (coefficients, intercept) of the second. Probabilities are
    averages to the power `sharpening`. `merged` are the weights of a mixture whose
    components predict in groups, and the group of each.
    """
    reported = mixture.drop_zero_weights()
    mixture = reported.base
    n_classes = len(classes)
    n_outputs = 1 if n_classes == 2 else n_classes
    n_features = mixture.dim // n_outputs - bool(fit_intercept)
    base = (n_features, bool(fit_intercept), classes)
    if n_classes == 2:
        whole = partial(_binary_model, base, sharpening, mixture_parts, mixture)
        if merged is None or not np.array_equal(merged[0], mixture.weights):
            return BinaryPredictive(whole(), reported)
        of_groups = partial(merged_parts, labels=merged[1])
        model = _binary_model(base, sharpening, of_groups, mixture)
        return BinaryPredictive(model, reported, whole)
    if mixture.gaussian:
        parts = [contrasts_part(one, n_classes) for one in mixture.components]
        nodes = nodes_of_mixture(mixture.weights, n_classes - 1, 2 * N_DRAWS)
        parts = mixture.weights, tuple(parts), nodes
        model = ContrastsClassifier(*base, *parts)
    else:
        model = _drawn_model(base, mixture)
    return SoftmaxPredictive(model, reported)


def _binary_model(base, sharpening, parts_of, mixture):
    return BinaryClassifier(*base, *parts_of(mixture), sharpening=sharpening)


def _drawn_model(base, mixture):
    draws = posterior_draws(mixture)
    weights = np.full(len(draws), 1.0 / len(draws))
    draws = draws.reshape(len(draws) * len(base[-1]), -1)
    return SoftmaxClassifier(*base, draws, weights)


def contrasts_part(component, n_classes):
    """`ContrastsPart` of a component over classes x (coefficients, intercept)."""
    contrasts = class_contrasts(n_classes)
    mean, variance, factor = component.structure()
    mean = mean.reshape(n_classes, -1).T @ contrasts
    if factor is not None:
        each = factor.reshape(n_classes, -1, factor.shape[1])
        factor = np.einsum("kc,kdr->dcr", contrasts, each).reshape(len(mean), -1)
    if variance is not None:
        outer = contrasts[:, :, None] * contrasts[:, None, :]
        variance = variance.reshape(n_classes, -1).T @ outer.reshape(n_classes, -1)
    return ContrastsPart(mean, factor, variance)


# --- two classes


# ``ln E sigmoid(sign * eta)`` of every row by the part of a plain model. No methods of
# the parts: exported files, which hold these, do without SciPy.


def _log_gaussian(part, X, sign):
    mean, std = part.moments(X)
    return log_sigmoid_expectation(sign * mean, std)


def _log_student_t(part, X, sign):
    location, scale = part.gaussian.moments(X)
    return log_student_t_sigmoid(sign * location, scale, part.df)


def _log_laplace(part, X, sign):
    return log_laplace_sigmoid(sign * (X @ part.mean), X, part.scale)


def _log_drawn(part, X, sign):
    logs = log_expit(sign * np.asarray(X @ part.draws.T))
    return log_sum_exp(logs) - np.log(logs.shape[1])


LOG_POSITIVE = {
    GaussianPart: _log_gaussian,
    StudentTPart: _log_student_t,
    LaplacePart: _log_laplace,
    DrawsPart: _log_drawn,
}


# Images of known draws on which ends of intervals rest.
N_IMAGES = 16384


class _OrbitsOfQuantiles:
    """What orbits do to quantiles: the masses that they add to images of draws."""

    def __init__(self, mixture, n_outputs, widened=lambda theta: theta):
        self.n, self._n_outputs = 0, n_outputs
        if mixture is not None and mixture.orbiting:
            # Indicators and sums over them need no more than single precision.
            theta, added = (
                a.astype(np.float32) for a in mixture.known_images(N_IMAGES)
            )
            self.n, self._added = len(theta), added
            by_output = theta.reshape(self.n, n_outputs, -1).transpose(1, 0, 2)
            self._theta = widened(by_output.reshape(self.n * n_outputs, -1))

    def ends(self, quantile, tails, block, answer):
        """Quantiles of what rows answer with orbits, (..., 2).

        ``quantile(p)`` are those without orbits, p for every row its own, and
        ``answer(eta)`` maps predictors (n_rows, n_outputs, n) to answers (..., n).
        """
        ends = quantile(tails)
        if not self.n:
            return ends
        eta = np.asarray(block.astype(np.float32) @ self._theta.T)
        values = answer(eta.reshape(-1, self._n_outputs, self.n))
        # What they add below an end is missing above it; a second pass has it at
        # the end that was found.
        for _ in range(2):
            below = [(values < ends[..., [k]]) @ self._added for k in (0, 1)]
            levels = tails - np.stack(below, axis=-1)
            ends = quantile(np.clip(levels, 0.1 * tails[0], 1.0 - 0.1 * tails[0]))
        return np.sort(ends, axis=-1)


def sorted_quantiles(values, p):
    """Quantiles of sorted values (..., n), at p (n_levels,) or (..., n_levels)."""
    n = values.shape[-1]
    place = np.clip(n * np.asarray(p) - 0.5, 0.0, n - 1.0)
    place = np.broadcast_to(place, (*values.shape[:-1], place.shape[-1]))
    index = np.minimum(place.astype(int), n - 2)
    low, high = (np.take_along_axis(values, index + k, axis=-1) for k in (0, 1))
    return low + (place - index) * (high - low)


class BinaryPredictive(Predictive):
    """Predictive quantities of a two-class model; `shifted` where rows have offsets.

    ``whole()`` makes the model of all components, where `model` has merged some: what
    is no probability is of these.
    """

    def __init__(self, model, mixture=None, whole=None):
        super().__init__(model, mixture)
        self._whole = whole

    @cached_property
    def whole(self):
        """The model of all components."""
        if self._whole is None:
            return self.model
        whole = self._whole()
        return whole.with_offset() if self.shifted else whole

    def with_offset(self):
        """See `Predictive`."""
        other = BinaryPredictive(self.model.with_offset(), self.mixture, self._whole)
        other.shifted = True
        return other

    def _widened(self, theta):
        """Draws (n, dim), with the coefficient of an offset where rows have one."""
        ones = np.ones((len(theta), int(self.shifted)), dtype=theta.dtype)
        return np.hstack([theta, ones])

    def _draws(self):
        """Fixed draws where components are not Gaussian, else None."""
        return (
            None if self.gaussian else self._widened(posterior_draws(self.mixture.base))
        )

    def log_proba(self, X):
        """Logarithms of both probabilities, (n, 2), however small they are."""
        out = np.empty((X.shape[0], 2))
        log_weights = np.log(self.model.weights)
        for rows, block in self.model.blocks(X, self.model.width):
            for column, sign in enumerate((-1.0, 1.0)):
                logs = [LOG_POSITIVE[type(p)](p, block, sign) for p in self.model.parts]
                out[rows, column] = log_sum_exp(np.column_stack(logs), log_weights)
        power = self.model.sharpening
        return out if power == 1.0 else log_softmax(power * out, axis=1)

    def interval(self, X, tails):
        """Quantiles of the probability of the second class, (n, 2)."""
        model = self.whole
        orbits = _OrbitsOfQuantiles(self.mixture, 1, self._widened)
        draws = self._draws()
        out = np.empty((X.shape[0], 2))
        for rows, block in model.blocks(X, N_DRAWS + orbits.n):
            if draws is None:
                moments = *model.moments(block), model.weights
                quantile = partial(mixture_quantiles, NormalNoise(), *moments)
            else:
                eta = np.asarray(block @ draws.T)
                quantile = partial(sorted_quantiles, np.sort(eta, axis=1))
            ends = orbits.ends(quantile, tails, block, lambda eta: eta[:, 0])
            out[rows] = expit(ends)
        return out

    def aleatoric(self, X):
        """Expected entropy given the coefficients, (n,)."""
        out, draws = np.empty(X.shape[0]), self._draws()
        for rows, block in self.whole.blocks(X, N_DRAWS):
            if draws is None:
                moments = self.whole.moments(block)
                out[rows] = entropy_expectation(*moments) @ self.whole.weights
            else:
                p = expit(np.asarray(block @ draws.T))
                out[rows] = (-xlogy(p, p) - xlogy(1 - p, 1 - p)).mean(axis=1)
        return out

    def log_counted(self, X, failures, successes):
        """Log probability of counts of both classes, (n,); see `log_binomial`."""
        out, draws = np.empty(X.shape[0]), self._draws()
        for rows, block in self.whole.blocks(X, N_DRAWS):
            counts = failures[rows], successes[rows]
            if draws is None:
                moments = self.whole.moments(block)
                out[rows] = log_binomial(*counts, *moments, self.whole.weights)
            else:
                out[rows] = log_binomial_of(*counts, np.asarray(block @ draws.T))
        return out


def log_binomial(failures, successes, means, stds, weights):
    """Log probability of successes among trials (n,), nats.

    Linear predictors are mixtures of Gaussians, means and standard deviations
    (n, n_parts).
    """
    # Trials that all succeed are those of the other class that all fail.
    turned = failures == 0
    y = np.where(turned, 0.0, successes)
    # At least one, where there is no trial.
    last = np.maximum(np.where(turned, successes, failures), 1.0)
    means = np.where(turned[:, None], -means, means)
    # Successes before the last failure are negative binomial. The last of all trials
    # is a failure in failures / trials of the orders.
    log_last = np.log(last)[:, None]
    logs = log_mixed_probability(y, means + log_last, stds, -log_last, weights)
    logs += np.log1p(y / last)
    return np.where(failures + successes > 0, logs, 0.0)


def log_binomial_of(failures, successes, eta):
    """The same under draws (n, n_draws) of linear predictors."""
    n = eta.shape[1]
    return log_binomial(failures, successes, eta, np.zeros_like(eta), np.full(n, 1 / n))


# --- more classes


class SoftmaxPredictive(Predictive):
    """Predictive quantities of a model with more than two classes."""

    @cached_property
    def _drawn(self):
        """The model by draws, whose intervals and entropies are taken."""
        if isinstance(self.model, SoftmaxClassifier):
            return self.model
        base = self.model.n_features, self.model.fit_intercept, self.model.classes
        return _drawn_model(base, self.mixture.base)

    def latent(self, X):
        """Mean and standard deviation of every linear predictor, (n, n_classes)."""
        mean, std = np.empty((2, X.shape[0], len(self.model.classes)))
        for rows, block in self._blocks(X):
            eta = self._drawn.predictors(block)
            mean[rows], std[rows] = eta.mean(axis=1), eta.std(axis=1)
        return mean, std

    def log_proba(self, X):
        """Logarithms of the probabilities, (n, n_classes), however small they are."""
        p = self.model.averaged(X)
        lost = (p < np.finfo(float).tiny).any(axis=1)
        out = np.log(np.where(lost[:, None], 1.0, p))
        if lost.any():
            out[lost] = self._log_by_draws(X[lost])
        return out

    def _log_by_draws(self, X):
        drawn = (self._drawn.predictors(block) for _, block in self._blocks(X))
        own = np.log(self._drawn.weights)[:, None]
        logs = [logsumexp(log_softmax(eta, axis=2) + own, axis=1) for eta in drawn]
        logs = np.concatenate(logs)
        return logs - logsumexp(logs, axis=1, keepdims=True)

    def interval(self, X, tails):
        """Quantiles of every probability, (n, n_classes, 2)."""
        n_classes = len(self.model.classes)
        orbits, drawn = _OrbitsOfQuantiles(self.mixture, n_classes), self._by_row
        out = np.empty((X.shape[0], n_classes, 2))
        for rows, block in self.model.blocks(X, n_classes * (N_DRAWS + orbits.n)):
            quantile = partial(sorted_quantiles, np.sort(drawn(block), axis=-1))
            out[rows] = orbits.ends(quantile, tails, block, partial(softmax, axis=1))
        return out

    @property
    def _by_row(self):
        """A function from rows to probabilities at draws, (n, n_classes, n_draws).

        Gaussian components are drawn from where they are a few numbers for each row:
        there 1,024 quasi-random points are as good as 60,000 draws of all coefficients.
        """
        base, n_classes = self.mixture.base, len(self.model.classes)
        if not base.gaussian:
            return lambda block: self._drawn.drawn(block).transpose(0, 2, 1)
        rng, contrasts = np.random.default_rng(0), class_contrasts(n_classes)
        upto = np.rint(N_DRAWS * base.weights.cumsum() / base.weights.sum()).astype(int)
        points = DiagonalGaussian().base_draws(N_DRAWS, n_classes - 1, rng)
        parts = [contrasts_part(one, n_classes) for one in base.components]
        points = np.split(rng.permutation(points), upto[:-1])

        def drawn(block):
            eta = []
            for part, eps in zip(parts, points, strict=True):
                mean, covariance = part.moments(block)
                centre = (mean @ contrasts.T)[:, :, None]
                eta.append(centre + contrast_roots(covariance) @ eps.T)
            return softmax(np.concatenate(eta, axis=2), axis=1)

        return drawn

    def aleatoric(self, X):
        """Expected entropy given the coefficients, (n,)."""
        drawn = (self._drawn.drawn(block) for _, block in self._blocks(X))
        return np.concatenate([entropy_of(p).mean(axis=1) for p in drawn])

    def _blocks(self, X):
        return self._drawn.blocks(X, self._drawn.width)


# --- independent models, one for each class


class OneVsRestPredictive(Predictive):
    """Of Gaussian linear predictors, one for each class against the rest."""

    def latent(self, X):
        """Mean and standard deviation of every linear predictor, (n, n_classes)."""
        blocks = self.model.blocks(X, self.model.width)
        moments = [self.model.moments(block) for _, block in blocks]
        return tuple(map(np.concatenate, zip(*moments, strict=True)))

    def log_proba(self, X):
        """Logarithms of the probabilities, (n, n_classes), however small they are."""
        logs = log_sigmoid_expectation(*self.latent(X))
        return logs - log_sum_exp(logs)[:, None]

    def interval(self, X, tails):
        """Quantiles of every probability, (n, n_classes, 2)."""
        ends = [np.quantile(p, tails, axis=0) for p in self._draws(X)]
        return np.moveaxis(np.concatenate(ends, axis=1), 0, -1)

    def aleatoric(self, X):
        """Expected entropy given the coefficients, (n,)."""
        means = [
            np.mean([entropy_of(draw) for draw in p], axis=0) for p in self._draws(X)
        ]
        return np.concatenate(means)

    def _draws(self, X):
        """Fixed draws of the probabilities of rows, a block at a time."""
        mean, std = self.latent(X)
        z = np.random.default_rng(0).standard_normal((N_DRAWS, 1, mean.shape[1]))
        for begin in range(0, len(mean), 256):
            rows = slice(begin, begin + 256)
            yield shares(expit(mean[rows] + std[rows] * z))


def entropy_of(probabilities):
    """Entropy of probabilities along the last axis, nats."""
    return -xlogy(probabilities, probabilities).sum(axis=-1)
