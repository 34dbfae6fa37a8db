"""Linear models of classes, and how far the probabilities that they give are sharpened.

Averages over a posterior of few rows can be too cautious or too bold. A power of them
that suits rows which the posterior has not seen mends the forecast, and leaves the
posterior as it is.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from skboost._sklearn import InstanceOf, StrOptions
from skboost.families import MAX_FULL_DIM, as_family
from skboost.linear_model._class_predictive import SoftmaxPredictive, class_predictive
from skboost.linear_model._merged import groups_of, moments_at_rows
from skboost.linear_model._model import LinearModel, name_of_prior, priors_of
from skboost.linear_model._stacked import stacked_modes
from skboost.linear_model._summary import column_moments
from skboost.proposals import left_out, propagates
from skboost.serving import SoftmaxClassifier
from skboost.targets import PRIORS, NormalPrior, Prior, ScalePrior

PRIOR_OF_CLASSES = [
    StrOptions({"auto", "principal", *PRIORS}),
    InstanceOf(Prior, "skboost.priors"),
    dict,
]
# Numbers in the rows, one of the intercept included, above which two classes' scale is
# not learned unless that is asked for, of more than 300 coefficients or under a prior
# that is not normal. Of more classes these times the square of how
# many they are, the classes, and parameters of all of them together.
_MANY, _MANY_OF_CLASSES = 1_000_000, 1_500_000
_MOST_CLASSES, _MOST_PARAMETERS = 20, 1000
# Products up to which modes of several classes at several scales take seconds, and what
# a search for one takes of each number of every class.
_MOST_PRODUCTS, _OF_A_SEARCH = 3e9, 400
# Standard deviation of the normal prior of the power's logarithm, and deviations up to
# which it is looked for. Without a prior separable rows make it infinite.
_LOG_POWER, _FARTHEST = 0.5, 6.0


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassModel(LinearModel):
    """A linear model of classes: of the second of two, or of every one."""

    classes: np.ndarray
    class_weight: object
    sharpening: float = 1.0
    # Stacked modes of more than two classes.
    forecast: object = None
    # What the components of a fit say of some of its rows; see `moments_at_rows`.
    seen: tuple | None = None

    def sharpened(self, rows, estimator):
        """The same with what the estimator's `sharpen` asks for."""
        given, sharpen = (estimator.prior, estimator.prior_scale), estimator.sharpen
        automatic = all(isinstance(one, str) and one == "auto" for one in given)
        several, found = len(self.classes) > 2, None
        if automatic and several if sharpen == "auto" else sharpen:
            to = self._with_modes if several else self._with_power
            found = to(rows, automatic)
        if found is None and sharpen not in ("auto", False):
            raise ValueError(
                "sharpen=True predicts every row by the others in closed form, which "
                "needs a smaller X or another prior; got "
                f"prior={name_of_prior(self.prior)!r}, {len(self.classes)} classes and "
                f"{len(rows)} x {rows.n_features} numbers. Set prior='auto', or "
                "sharpen=False."
            )
        return found or self

    def _with_power(self, rows, automatic):
        """The same with the power that these rows ask for, or None."""
        target = self.joint(rows)
        family = as_family("gaussian", target.dim)
        if not propagates(target, family):
            return None
        return replace(self, sharpening=sharpening_power(*left_out(target, family)))

    def _with_modes(self, rows, automatic):
        """The same with `stacked_modes`, or None; scales that are automatic are in the
        units of columns, learned or not.
        """
        n_rows, n, n_classes = len(rows), rows.n_features, len(self.classes)
        dim = n_classes * (1 + min(n, n_rows))
        products = n_rows * n * n_classes * (_OF_A_SEARCH + dim) + dim**3
        usual = type(getattr(self.prior, "coef", self.prior)) is NormalPrior
        if not usual or products > _MOST_PRODUCTS:
            return None
        known = automatic and self.prior.closed
        columns = 1.0 / column_moments(rows)[1] if known else self.scale[:n]
        return replace(self, forecast=self._stacked(rows, columns))

    def _stacked(self, rows, columns):
        """What predicts by modes at scales that are about these of the columns."""
        n, n_classes = rows.n_features, len(self.classes)
        table = rows.every(1)
        X = table.X.toarray() if sparse.issparse(table.X) else np.asarray(table.X)
        weight = np.broadcast_to(table.weight, len(table)).astype(float)
        width = self.scale[n] if self.layout.intercept else None
        some = weight > 0.0
        parts = X[some].astype(float), table.y[some].astype(int), weight[some]
        parts = *parts, n_classes, columns, width, self.temperature
        weights, modes = stacked_modes(*parts)
        base = n, self.layout.intercept, self.classes, np.concatenate(modes)
        return SoftmaxPredictive(SoftmaxClassifier(*base, weights))

    def predictive(self, mixture):
        """What answers about rows; see `LinearModel`."""
        parts = self.layout.intercept, self.classes, self.sharpening, self.merged
        return class_predictive(mixture, *parts)

    def with_fit(self, mixture, rows):
        """See `LinearModel`."""
        if len(self.classes) > 2:
            return self
        parts = mixture.drop_zero_weights().base, rows, self.layout.intercept
        return replace(self, seen=moments_at_rows(*parts))

    @cached_property
    def merged(self):
        """Weights of the mixture of a fit, and groups of components that predict as
        one; None where all predict apart."""
        groups = self.seen and groups_of(*self.seen)
        return None if groups is None else (self.seen[0], groups)

    def attributes(self, mixture):
        """Coefficients as scikit-learn's classifiers lay them out, of a mixture."""
        own = {"classes_": self.classes, "sharpening_": self.sharpening}
        own["prior_"] = name_of_prior(self.prior)
        if mixture is None:
            return own
        coef, intercept = self.means(mixture)
        return own | {"coef_": coef, "intercept_": intercept}


def sharpening_power(logs, weights):
    """The power of probabilities that held-out rows like most.

    Of log probabilities (n, K), the row's own class first, and weights of rows.
    """

    def loss(log_power):
        own = log_softmax(np.exp(log_power) * logs, axis=1)[:, 0]
        return 0.5 * (log_power / _LOG_POWER) ** 2 - weights @ own

    ends = -_FARTHEST * _LOG_POWER, _FARTHEST * _LOG_POWER
    return float(np.exp(minimize_scalar(loss, bounds=ends, method="bounded").x))


def prior_of_classes(estimator, rows, layout, n_classes):
    """`priors_of` a classifier, automatic ones being those for its rows.

    A scale is learned where rows are few enough for it to matter, or where that costs
    next to nothing, and the prior is then along principal components, of as many
    columns as have correlations of their coefficients. Both follow from the shape of
    the data and from nothing else, so that fits of all families, objectives and
    strategies are of one model.
    """
    prior, chosen, n = estimator.prior, estimator.prior_scale, len(rows)
    width = rows.n_features + layout.intercept
    related, few = width <= MAX_FULL_DIM, n * width <= _MANY
    if n_classes > 2:
        few = False
        related = n_classes <= _MOST_CLASSES and n_classes * width <= _MOST_PARAMETERS
        related = related and n * width * n_classes**2 <= _MANY_OF_CLASSES
    if isinstance(chosen, str) and chosen == "auto":
        scaled = np.any(np.not_equal(getattr(prior, "scale", 1.0), 1.0))
        usual = isinstance(prior, NormalPrior)
        usual = usual or prior in ("auto", "normal", "principal")
        learned = not scaled and (few or (usual and related))
        chosen = "learn" if learned else 1.0
    principal = related and isinstance(chosen, str | ScalePrior)
    if prior == "principal" and not principal:
        raise ValueError(
            "prior='principal' needs prior_scale='learn' and rows to which the scale "
            "matters: of two classes at most 300 parameters, of more at most 20 "
            "classes, 1,000 parameters and 1.5 million as the product of these, rows "
            f"and classes; got prior_scale={estimator.prior_scale!r}, {n_classes} "
            f"classes and {n} x {rows.n_features} numbers. Set prior='normal'."
        )
    if prior in ("auto", "principal"):
        prior = "principal" if principal else "normal"
    return priors_of(estimator, rows, layout, chosen=chosen, prior=prior)
