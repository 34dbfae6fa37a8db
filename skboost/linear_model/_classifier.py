"""What a classifier with a posterior over its coefficients answers."""

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from skboost.linear_model._answers import Answers, answer
from skboost.linear_model._class_predictive import entropy_of
from skboost.linear_model._drawn import DrawnClasses, drawn_classes, linear_predictors
from skboost.linear_model._methods import (
    checked_rows,
    coefficient_ends,
    drawn_coordinates,
    drawn_parameters,
    one_for_each_row,
    tails_of,
)
from skboost.linear_model._predictive import offset_rows
from skboost.linear_model._ratios import contrast_table, ratio_table
from skboost.linear_model._row_keywords import (
    checked_trials,
    counted_classes,
    warn_of_missing_offset,
)
from skboost.linear_model._sources import check_labels, codes_of
from skboost.targets import validate_offset


class ClassAnswers(Answers, ClassifierMixin):
    """Predictions of classes that average over a posterior, with ``classes_``."""

    # Whether each of several classes has its own model against all others.
    _one_against_rest = False

    def score(self, X, y, sample_weight=None):
        """Accuracy: the share of rows whose class is the predicted one.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
        """
        # scikit-learn would cast NaN to a whole number.
        check_labels(np.asarray(y))
        return super().score(X, y, sample_weight)

    @answer
    def predict_proba(self, X, offset=None, **of_groups):
        """Posterior predictive probabilities of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        offset : array-like of shape (n_samples,) or str, default=None
            Added to the linear predictor of two classes; the name of a column where X
            is a data frame. None is the column that `fit` was told the name of, or else
            zero, with a warning after a fit that had some.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Without groups: with two classes exact to 1e-9, but that components predict
            as one where that moves no probability of 32 rows of the fit by 1e-4. With
            more, those of stacked modes where `sharpen` has them, or averages over some
            2,048 nodes that Gaussian components share: errors were at most 1e-3 where
            predictors have deviations up to 1, 1e-2 at 8. Else, and with groups,
            averages over fixed draws.
        """
        predictive, rows = self._asked(X, offset, forecast=True, **of_groups)
        return predictive.model.proba(*rows)

    @answer
    def predict_log_proba(self, X, offset=None, **of_groups):
        """Logarithms of the posterior predictive probabilities.

        Of two classes without groups finite and accurate where `predict_proba` is 0 or
        1 to rounding: the average over the posterior is taken of logarithms. Student-t
        components hold that down to probabilities of 1e-100.

        Parameters
        ----------
        X, offset
            As in `predict_proba`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Nats. With more than two classes or groups the logarithms of
            `predict_proba`, whose small probabilities are known to its own error only;
            without groups by draws, in logarithms, where one of them underflows.
        """
        predictive, rows = self._asked(X, offset, forecast=True, **of_groups)
        return predictive.log_proba(*rows)

    @answer
    def predict(self, X, offset=None, **of_groups):
        """Most probable class of every row.

        Parameters
        ----------
        X, offset
            As in `predict_proba`.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        codes = self.predict_proba(X, offset, **of_groups).argmax(axis=1)
        return self.classes_[codes]

    @answer
    def predict_proba_interval(self, X, level=0.9, offset=None, **of_groups):
        """Central credible interval of the predictive probability.

        Parameters
        ----------
        X, offset
            As in `predict_proba`.
        level : float, default=0.9
            Posterior probability inside, in (0, 1).

        Returns
        -------
        ndarray of shape (n_samples, 2) or (n_samples, n_classes, 2)
            Lower and upper end; for two classes, of the second class.
        """
        tails = tails_of(level)
        predictive, rows = self._asked(X, offset, reported=True, **of_groups)
        return predictive.interval(*rows, tails)

    @answer
    def predict_uncertainty(self, X, offset=None, **of_groups):
        """Entropy of the prediction, and its split.

        Parameters
        ----------
        X, offset
            As in `predict_proba`.

        Returns
        -------
        total : ndarray of shape (n_samples,)
            Entropy of the predictive distribution, nats.
        aleatoric : ndarray of shape (n_samples,)
            Expected entropy given coefficients and effects of groups: noise that more
            data leave.
        epistemic : ndarray of shape (n_samples,)
            Their difference: what is not known about coefficients and effects.
        """
        predictive, rows = self._asked(X, offset, **of_groups)
        total = entropy_of(predictive.model.averaged(*rows))
        aleatoric = predictive.aleatoric(*rows)
        return total, aleatoric, np.maximum(total - aleatoric, 0.0)

    @answer
    def log_predictive_density(self, X, y, offset=None, trials=None, **of_groups):
        """Log probability of the observed classes under the predictive distribution.

        A proper score: larger is better, and only the truth has the largest mean.

        Parameters
        ----------
        X, offset
            As in `predict_proba`.
        y : array-like of shape (n_samples,)
            Labels among ``classes_``; with `trials` how many of these are of the
            second of two classes, all with the same coefficients and effects.
        trials : int, array-like of shape (n_samples,) or str, default=None
            Numbers of trials of every row, or the name of a column. Probabilities of
            counts are not sharpened.

        Returns
        -------
        ndarray of shape (n_samples,)
            Nats.
        """
        check_is_fitted(self)
        X, trials = self._named_in(X, trials=trials)
        if trials is not None:
            counts = counted_classes(X, y, trials, self.classes_)
            predictive, rows = self._asked(X, offset, **of_groups)
            return predictive.log_counted(*rows, *counts)
        codes = self._coded(X, y)
        logs = self.predict_log_proba(X, offset, **of_groups)
        return np.take_along_axis(logs, codes[:, None], axis=1)[:, 0]

    def odds_ratios(self, level=0.9, reference=None, increment=1.0):
        """Factors by which the odds grow with each feature, with credible intervals.

        With two classes the odds are those of ``classes_[1]``, and the row of the
        intercept has the odds where every feature is zero, in the median group where
        there are groups, whose effects stay as they are. With ordered classes they
        are those of a higher class, whichever the threshold, and the row of the
        intercept has the odds of all above the lowest.

        The prior pulls factors towards one, most where rows are few: a wide one such as
        ``prior_scale=10`` reports what the rows alone say.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability inside, in (0, 1).
        reference : label, default=None
            With more than two classes: the class that the odds of every other one are
            against; None is ``classes_[0]``. Not for two classes, nor where every class
            has a model against all others (`OnlineBayesianLogisticRegression`).
        increment : float, dict or array-like of shape (n_features,), default=1.0
            Change of each feature that its ratio is for; a dict names some of them.
            Of columns that a ``StandardScaler`` divided by ``scale_``, ``1 / scale_``
            gives ratios for one of the units before.

        Returns
        -------
        pandas.DataFrame, or a structured ndarray where pandas is not installed
            A row for each coefficient, the intercept last of its class: ``odds_ratio``
            (posterior median), ``lower`` and ``upper`` end of the central interval, and
            ``probability_above_1``. The name of its columns says under which prior, and
            ``attrs["prior"]`` what shrinks less.

        Raises
        ------
        ValueError
            For a `level` that is no probability, a `reference` that is no class or has
            no part in the model, and an `increment` that is not positive.

        Notes
        -----
        Coefficients of several classes have meaning as differences only. So their
        ratios come from differences between draws, 16,384 up to a thousand parameters,
        which are the same at every call; of two classes they come from the marginals.
        """
        check_is_fitted(self)
        layout = self._model_.layout
        if layout.outputs and not self._one_against_rest:
            return contrast_table(self, reference, level, increment)
        if reference is not None:
            first = getattr(self, "categories_", self.classes_)[:1].tolist()[0]
            against = "all others" if layout.outputs else repr(first)
            raise ValueError(
                f"reference must be None: odds are against {against} here; got "
                f"{reference!r}."
            )
        return ratio_table(self, "odds_ratio", level, increment)

    def _coded(self, X, y, trials=None):
        if trials is not None:
            return counted_classes(X, y, trials, self.classes_)[1]
        return codes_of(one_for_each_row(self, X, y), self.classes_)


class BayesianClassifier(ClassAnswers):
    """Those of models without groups, with ``_model_`` and ``_fit``."""

    def _predictive(self, reported=False):
        """What answers about checked rows, by the mixture with orbits or without."""
        mixture = self.posterior_._mixture if reported else self._fit.mixture
        return self._model_.predictive(mixture)

    def _forecast(self):
        """What answers about probabilities: the mixture, but for stacked modes."""
        return self._model_.forecast or self._predictive()

    def _asked(self, X, offset=None, reported=False, forecast=False):
        """What answers about rows, and these as the plain model takes them."""
        check_is_fitted(self)
        X, offset = self._found(X, offset=offset)
        plain = checked_rows(self, X)
        warn_of_missing_offset(self._model_.exposed, offset)
        predictive = self._forecast() if forecast else self._predictive(reported)
        if offset is None:
            return predictive, (plain,)
        return predictive.with_offset(), (self._offset_rows(plain, offset),)

    def _offset_rows(self, X, offset):
        offset = validate_offset(offset, X.shape[0])
        # Sparse rows have their ones already.
        ones = self._model_.layout.intercept and X.shape[1] == self.n_features_in_
        return offset_rows(X, ones, offset)

    def decision_function(self, X, offset=None):
        """Logit of the predictive probability; log probabilities for more classes.

        Parameters
        ----------
        X, offset
            As in `predict_proba`.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        logs = self.predict_log_proba(X, offset)
        return logs[:, 1] - logs[:, 0] if len(self.classes_) == 2 else logs

    def predict_latent(self, X, offset=None):
        """Mean and standard deviation of the linear predictor.

        Parameters
        ----------
        X, offset
            As in `predict_proba`.

        Returns
        -------
        mean, std : ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        predictive, rows = self._asked(X, offset)
        return predictive.latent(*rows)

    def sample_posterior(self, n=1, random_state=None):
        """Draws of coefficients and intercept.

        Parameters
        ----------
        n : int, default=1
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        coef : ndarray of shape (n, n_features) or (n, n_classes, n_features)
        intercept : ndarray of shape (n,) or (n, n_classes)
        """
        coef, intercept, _ = drawn_parameters(self, n, random_state)
        if len(self.classes_) == 2:
            return coef[:, 0], intercept[:, 0]
        return coef, intercept

    def coef_interval(self, level=0.9):
        """Central credible intervals of the coefficients.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability inside, in (0, 1).

        Returns
        -------
        ndarray of shape (1, n_features, 2) or (n_classes, n_features, 2)
            Lower and upper ends.
        """
        return coefficient_ends(self, level)

    # --- responses under draws; see `skboost.linear_model._drawn`

    _drawn = drawn_coordinates

    def _responses(self, drawn, X, offset=None, trials=None):
        """Of new rows; averages are those of the posterior's power where it has one."""
        X, trials = self._named_in(X, trials=trials)
        trials = None if trials is None else checked_trials(X, trials)
        predictive, (X,) = self._asked(X, offset)
        theta, model = self._linear_part(drawn), predictive.model
        if predictive.shifted:
            theta = np.column_stack([theta, np.ones(len(theta))])
        others = self._one_against_rest or model.sharpening != 1.0
        averaged = model.proba(X) if others else None
        parts = linear_predictors(X, self._model_.layout.intercept, theta)
        for rows, eta in parts:
            own = None if averaged is None else averaged[rows]
            responses = DrawnClasses(self._given(drawn, eta), own, model.ranks)
            yield rows, responses if trials is None else responses.tried(trials[rows])

    def _linear_part(self, theta):
        """Coefficients with intercepts, a row for each draw and linear predictor."""
        return theta.reshape(len(theta) * self._model_.layout.n_outputs, -1)

    def _given(self, theta, eta):
        """Probabilities of classes given every draw, (n, n_draws, n_classes)."""
        return drawn_classes(eta, len(self.classes_), self._one_against_rest)

    def _named(self, drawn):
        return dict(zip(self._model_.layout.names, drawn.T, strict=True)), {}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def staged_predict_proba(self, X, offset=None):
    """Averages over the posterior after every iteration; the last is the final one.

    Parameters
    ----------
    X, offset
        As in `predict_proba`.

    Yields
    ------
    ndarray of shape (n_samples, n_classes)
    """
    last, (X,) = self._asked(X, offset)
    for mixture in self._fit.stages:
        predictive = self._model_.predictive(mixture)
        predictive = predictive.with_offset() if last.shifted else predictive
        yield predictive.model.proba(X)
