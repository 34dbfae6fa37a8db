"""Bayesian regression of ordered classes with a boosted mixture as posterior."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import log_expit, logit, logsumexp
from sklearn.utils import column_or_1d

from skboost._parameters import keeps_parameters
from skboost._row_blocks import RowBlocks
from skboost._sklearn import StrOptions, fit_context
from skboost.fitting import warn_where_called
from skboost.linear_model._class_predictive import entropy_of
from skboost.linear_model._classifier import BayesianClassifier, staged_predict_proba
from skboost.linear_model._flat import FlatRegression
from skboost.linear_model._methods import drawn_parameters
from skboost.linear_model._model import (
    SCALED_CONSTRAINTS,
    Layout,
    LinearModel,
    feature_names,
    highest_point,
    priors_of,
)
from skboost.linear_model._predictive import Predictive, posterior_draws
from skboost.linear_model._sources import Labels, codes_of, ranks_of
from skboost.linear_model._summary import sizes
from skboost.serving import OrdinalClassifier, between_thresholds
from skboost.targets import CumulativeLogits, OrdinalTarget, bounded_exp

NAME_CATEGORIES = "Name all classes in categories."


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

    categories: np.ndarray

    target = OrdinalTarget

    @property
    def ranks(self):
        """See `ranks_of`."""
        return ranks_of(self.categories)

    def start(self, target, rows):
        """The mode, by ascent from the shares of the classes."""
        n_classes = len(self.categories)
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
            np.sort(self.categories),
            draws[:, : n + 1],
            thresholds_of(0.0, draws[:, n + 1 :]),
            self.ranks,
        )
        return OrdinalPredictive(model)

    def attributes(self, mixture):
        """Fitted attributes: posterior means."""
        model = self.predictive(mixture).model
        thresholds = model.thresholds - model.draws[:, -1:]
        coef, _ = self.means(mixture)
        return {
            "classes_": model.classes,
            "categories_": self.categories,
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
        """Quantiles of probabilities, (n, n_classes, 2), or of the second of two."""

        def ends(logs):
            return np.moveaxis(np.quantile(np.exp(logs), tails, axis=1), 0, -1)

        found = self._by_row(X, ends)
        return found[:, 1] if found.shape[1] == 2 else found

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
            ranks = self.model.ranks
            found.append(answer(logs if ranks is None else logs[..., ranks]))
        return np.concatenate(found)


@dataclass
class Ranks(Labels):
    """Labels in an order that is known beforehand, or None for that of sorting."""

    order: np.ndarray | None = None

    def ranked(self, before, categories, X, y):
        """Labels, (n_samples,), or their ranks by `categories` or the model before."""
        self.order = order_of(categories, X, y) if before is None else before.categories
        if self.order is None:
            return y
        self.named = np.arange(len(self.order))
        return codes_of(column_or_1d(y), self.order, NAME_CATEGORIES)


class BoostedBayesianOrdinalRegression(BayesianClassifier, FlatRegression):
    """Regression of ordered classes, such as grades, with a posterior.

    Cumulative logits (proportional odds): ``logit p(y <= k) = threshold_k - x coef``,
    with increasing thresholds. One coefficient for each feature, however many classes
    there are: what moves a row up by one class moves it up everywhere. A fit searches
    the best Gaussian over coefficients and thresholds, one for every scale of the prior
    where that is learned, and adds components by boosting variational inference where
    draws see that more than `tol` remains.

    Parameters
    ----------
    categories : "auto" or array-like of shape (n_classes,), default="auto"
        All classes in ascending order. ``"auto"`` is the order of an ordered pandas
        categorical, else that of sorting: "high" < "low" for strings. With strings here
        whole numbers in `y` are not ranks but places in the order of sorting, the codes
        that meta-estimators of scikit-learn replace labels by.
    prior, prior_scale
        As in `BoostedBayesianPoissonRegression`, with the same defaults.
    intercept_scale : "auto" or float, default="auto"
        Scale of the prior of the first threshold, of the kind of `prior` and around
        zero, at the centre of the columns. ``"auto"`` is 10.
    formula, missing, temperature, max_iter, tol, max_time, warm_start, random_state, \
    n_jobs, verbose, family, objective, step_size, corrective, search, orbit
        As in `BoostedBayesianLogisticRegression`, with the same defaults.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted, as those of every classifier; columns of probabilities follow them.
    categories_ : ndarray of shape (n_classes,)
        The same in ascending order.
    posterior_ : MixturePosterior
        Over (coefficients, intercept, log_gap_1, ...): the first threshold is minus the
        intercept, and every further one is ``exp(log_gap)`` above the one before. The
        prior of these logarithms is normal, with mean zero and a standard deviation of
        1.5: gaps are between .08 and 12 with probability .9.
    coef_, prior_scale_
        As of `BoostedBayesianLinearRegression`.
    thresholds_ : ndarray of shape (n_classes - 1,)
        Posterior means, increasing.
    elbo_, elbo_se_, elbo_path_, gain_path_, duality_gap_, duality_gap_se_, \
    duality_gap_path_, remaining_kl_, remaining_kl_se_, remaining_kl_interval_, \
    pareto_k_, orbiting_, n_iter_, converged_, message_, history_, \
    n_dropped_, n_features_in_, feature_names_in_
        As of `BoostedBayesianLogisticRegression`.

    See Also
    --------
    BoostedBayesianLogisticRegression : Classes without an order.

    Notes
    -----
    Expectations under a Gaussian have no closed form here, so that fitting takes draws.
    Predictions average over 1,024 fixed quasi-random draws of the posterior.

    References
    ----------
    McCullagh: Regression Models for Ordinal Data, Journal of the Royal Statistical
    Society B 42, 1980. Locatello et al. 2018 (Algorithm 1).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from skboost import BoostedBayesianOrdinalRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> grades = np.digitize(y, [100, 200])
    >>> model = BoostedBayesianOrdinalRegression(random_state=0)
    >>> model.fit(X[:99], grades[:99]).predict_proba(X[:2]).shape
    (2, 3)
    """

    _said_by_formula = {}
    _parameter_constraints = {
        **{k: v for k, v in SCALED_CONSTRAINTS.items() if k != "fit_intercept"},
        "categories": [StrOptions({"auto"}), "array-like"],
    }

    @keeps_parameters
    def __init__(
        self,
        *,
        categories="auto",
        prior="normal",
        prior_scale="learn",
        intercept_scale="auto",
        formula=None,
        missing="raise",
        temperature=1.0,
        max_iter="auto",
        tol="auto",
        max_time=None,
        warm_start=False,
        random_state=None,
        n_jobs=None,
        verbose=0,
        family="gaussian",
        objective="kl",
        step_size="line-search",
        corrective="fully-corrective",
        search="greedy",
        orbit="auto",
    ):
        pass

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None):
        """Fit the posterior. Returns self.

        Parameters
        ----------
        X, sample_weight
            As in `BoostedBayesianLogisticRegression.fit`.
        y : array-like of shape (n_samples,), default=None
            Labels of at least two classes; None for `RowBlocks`, which have them.

        Raises
        ------
        ValueError
            For labels that are not among `categories`, and as
            `BoostedBayesianLogisticRegression.fit`.
        KeyboardInterrupt
            As the same, which warns as this does.
        """
        return self._fit_rows(X, y, sample_weight=sample_weight)

    def sample_posterior(self, n=1, random_state=None):
        """Draws of coefficients and thresholds.

        Parameters
        ----------
        n : int, default=1
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        coef : ndarray of shape (n, n_features)
        thresholds : ndarray of shape (n, n_classes - 1)
        """
        coef, intercept, gaps = drawn_parameters(self, n, random_state)
        return coef[:, 0], thresholds_of(intercept[:, 0], gaps)

    def log_predictive_density(self, X, y):
        """Log probability of the observed classes under the predictive distribution.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels among ``classes_``.

        Returns
        -------
        ndarray of shape (n_samples,)
            Nats.
        """
        return super().log_predictive_density(X, y)

    def _linear_part(self, theta):
        return theta[:, : len(self._model_.layout.features) + 1]

    def _given(self, theta, eta):
        gaps = theta[:, len(self._model_.layout.features) + 1 :]
        return between_thresholds(thresholds_of(0.0, gaps), eta, self._model_.ranks)

    staged_predict_proba = staged_predict_proba

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Classes in no order are beyond one linear predictor.
        tags.classifier_tags.poor_score = True
        return tags

    def _reader(self, before, named=None):
        return Ranks(self.n_jobs)

    def _arranged(self, reader, before, X, y, sample_weight):
        return X, reader.ranked(before, self.categories, X, y), sample_weight

    def _model(self, rows, reader):
        """The model of these parameters for some rows."""
        classes = reader.classes if reader.order is None else reader.order
        gaps = tuple(f"log_gap_{k}" for k in range(1, len(classes) - 1))
        layout = Layout(feature_names(self), True, further=gaps)
        priors = priors_of(self, rows, layout)
        return OrdinalModel(
            layout=layout,
            likelihood=CumulativeLogits(len(classes)),
            **priors,
            temperature=self.temperature,
            categories=np.asarray(classes),
        )


def order_of(categories, X, y):
    """All classes in ascending order; None where that is the order of sorting.

    Where `categories` are strings and labels are whole numbers, these are the codes
    that scikit-learn hands on: places of the classes in the order of sorting.
    """
    if not isinstance(categories, str):
        if isinstance(X, RowBlocks):
            raise ValueError(
                "categories must be 'auto' where X is RowBlocks; got "
                f"{categories!r}. Yield ranks, 0 for the lowest class, as responses."
            )
        order = column_or_1d(categories)
        if len(np.unique(order)) != len(order) or len(order) < 2:
            raise ValueError(
                "categories must be at least two different classes in ascending "
                f"order; got {categories!r}."
            )
        names, labels = np.sort(order), np.asarray(y)
        codes, whole = np.searchsorted(names, order), labels.dtype.kind in "iu"
        coded = whole and all(isinstance(one, str) for one in order)
        if not coded or not np.isin(labels, codes).all():
            return order
        if np.any(np.diff(codes) < 0):
            taken = [f"{k} for {name!r}" for k, name in enumerate(names.tolist())]
            warn_where_called(
                "y has whole numbers where categories are strings: they are taken for "
                f"places in the order of sorting ({', '.join(taken)}), the codes that "
                "StackingClassifier, VotingClassifier and cross_val_predict pass on; "
                "pass the labels themselves, or leave categories out where 0 is the "
                "lowest class.",
                UserWarning,
            )
        return codes
    dtype = getattr(y, "dtype", None)
    if getattr(dtype, "ordered", False):
        return np.asarray(dtype.categories)
    return None
