"""A linear model of ordered classes, and what it predicts."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import log_expit, logit, logsumexp

from skboost.linear_model._class_predictive import entropy_of
from skboost.linear_model._model import LinearModel, highest_point
from skboost.linear_model._predictive import Predictive, posterior_draws
from skboost.linear_model._summary import sizes
from skboost.serving import OrdinalClassifier
from skboost.targets import OrdinalTarget, bounded_exp


def thresholds_of(intercept, gaps):
    """Thresholds (..., K - 1) of a linear predictor without its intercept."""
    zero = np.zeros((*gaps.shape[:-1], 1))
    above = np.concatenate([zero, bounded_exp(gaps).cumsum(axis=-1)], axis=-1)
    return above - np.expand_dims(intercept, -1)


def _class_weights(n_classes, table):
    """The weight of every class in a block of rows."""
    weight = np.broadcast_to(table.weight, len(table))
    return (np.bincount(table.y, weight, n_classes),)


@dataclass(frozen=True, eq=False, kw_only=True)
class OrdinalModel(LinearModel):
    """A linear model of ordered classes, which are named in their order."""

    classes: np.ndarray

    def joint(self, rows):
        """The log joint density of rows, a target."""
        return OrdinalTarget(
            rows,
            self.likelihood,
            prior=self.prior,
            scale=self.scale,
            temperature=self.temperature,
            fit_intercept=True,
            centre=self.centre,
        )

    def start(self, target, rows):
        """The mode, by ascent from the shares of the classes."""
        n_classes = len(self.classes)
        (counts,) = rows.sum(partial(_class_weights, n_classes), 1)
        below = np.cumsum(counts + 0.5)[:-1] / (counts.sum() + 0.5 * n_classes)
        gaps = np.log(np.maximum(np.diff(logit(below)), 0.01))
        size = sizes(rows, True, self.centre is not None)
        centre = np.concatenate([np.zeros(len(size) - 1), [-logit(below[0])], gaps])
        total = self.temperature * counts.sum()
        width = 1.0 / (
            np.append(size, np.ones(len(gaps))) * np.sqrt(0.25 * total + 1.0)
        )
        return highest_point(target, centre, width)[None]

    def predictive(self, mixture):
        """What answers about rows; see `LinearModel`."""
        draws = posterior_draws(mixture.drop_zero_weights())
        n = len(self.layout.features)
        model = OrdinalClassifier(
            n,
            True,
            self.classes,
            draws[:, : n + 1],
            thresholds_of(0.0, draws[:, n + 1 :]),
        )
        return OrdinalPredictive(model)

    def attributes(self, mixture):
        """Fitted attributes: posterior means."""
        model = self.predictive(mixture).model
        thresholds = model.thresholds - model.draws[:, -1:]
        coef, _ = self.means(mixture)
        return {
            "classes_": self.classes,
            "coef_": coef[0],
            "thresholds_": thresholds.mean(axis=0),
        }


class OrdinalPredictive(Predictive):
    """Predictive quantities of ordered classes, by fixed draws of the posterior."""

    def latent(self, X):
        """Mean and standard deviation of the linear predictor, (n,) each."""
        mean, std = np.empty((2, X.shape[0]))
        for rows, block in self.model.blocks(X, self.model.width):
            eta = np.asarray(block @ self.model.draws.T)
            mean[rows], std[rows] = eta.mean(axis=1), eta.std(axis=1)
        return mean, std

    def log_proba(self, X):
        """Logarithms of the probabilities, (n, n_classes), however small they are."""
        return self._by_row(X, lambda p: logsumexp(p, axis=1) - np.log(p.shape[1]))

    def interval(self, X, tails):
        """Quantiles of every probability, (n, n_classes, 2)."""

        def ends(logs):
            return np.moveaxis(np.quantile(np.exp(logs), tails, axis=1), 0, -1)

        return self._by_row(X, ends)

    def aleatoric(self, X):
        """Expected entropy given the parameters, (n,)."""
        return self._by_row(X, lambda logs: entropy_of(np.exp(logs)).mean(axis=1))

    def _by_row(self, X, answer):
        """What a function makes of log probabilities (n_rows, n_draws, n_classes)."""
        thresholds = self.model.thresholds
        edge = np.zeros((len(thresholds), 1))
        between = np.log(-np.expm1(-np.diff(thresholds, axis=1)))
        between = np.hstack([edge, between, edge]) if between.size else 0.0
        found = []
        for _, block in self.model.blocks(X, self.model.width):
            above = thresholds - np.asarray(block @ self.model.draws.T)[:, :, None]
            ends = np.zeros((*above.shape[:2], 1))
            logs = np.concatenate([log_expit(above), ends], axis=2) + between
            logs += np.concatenate([ends, log_expit(-above)], axis=2)
            found.append(answer(logs))
        return np.concatenate(found)
