"""A linear model as one frozen object: what a fit begins with, and what stays of it."""

from dataclasses import dataclass, replace
from itertools import count
from numbers import Integral

import numpy as np
from sklearn.base import clone

from skboost._sklearn import InstanceOf, StrOptions
from skboost.families import MAX_FULL_DIM
from skboost.fitting import BOOSTING_CONSTRAINTS
from skboost.linear_model._methods import POSITIVE
from skboost.linear_model._summary import column_covariance, column_moments
from skboost.modes import find_mode
from skboost.targets import (
    PRIORS,
    CentredTarget,
    ColumnPriors,
    ColumnScale,
    CommonScale,
    DispersionPrior,
    FlatPrior,
    GLMTarget,
    HalfTPrior,
    LogJoint,
    NoiseScalePrior,
    NoisyGLMTarget,
    NormalPrior,
    PrincipalScale,
    Prior,
    ScalePrior,
    as_prior,
    validate_scale,
)

LINEAR_MODEL_CONSTRAINTS = {
    **BOOSTING_CONSTRAINTS,
    # The horseshoe is for numbers and two classes, where it was measured.
    "prior": [
        StrOptions(set(PRIORS) - {"horseshoe"}),
        InstanceOf(Prior, "skboost.priors"),
        dict,
    ],
    "prior_scale": [
        StrOptions({"learn"}),
        InstanceOf(ScalePrior, "skboost.priors"),
        "array-like",
        POSITIVE,
    ],
    "fit_intercept": ["boolean"],
    "intercept_scale": [POSITIVE],
}
# Those of models whose scales follow the data by default.
SCALED_CONSTRAINTS = {
    **LINEAR_MODEL_CONSTRAINTS,
    "prior_scale": [
        StrOptions({"auto", "learn"}),
        *LINEAR_MODEL_CONSTRAINTS["prior_scale"][1:],
    ],
    "intercept_scale": [StrOptions({"auto"}), POSITIVE],
    "formula": [str, None],
    "missing": [StrOptions({"raise", "drop"})],
}
NOISE_PRIOR = [StrOptions({"auto"}), InstanceOf(NoiseScalePrior, "skboost.priors")]
DISPERSION_PRIOR = [StrOptions({"auto"}), InstanceOf(DispersionPrior, "skboost.priors")]
# Parameters of other libraries, and what takes their place.
PARAMETERS_ELSEWHERE = {
    "C": "Use prior_scale: the penalty of C is a normal prior of scale sqrt(C).",
    "alpha": "Use prior_scale: the penalty of alpha is a normal prior of scale "
    "1 / sqrt(alpha), in units of the noise.",
    "penalty": "Use prior: 'normal' stands for 'l2', 'laplace' for 'l1'.",
}
# Share of the variance of a product of columns up to which others determine it, and of
# the prior variance at zero that is that at the centre, below which zero is far off.
_DETERMINED, _NEAR = 1e-12, 0.1


@dataclass(frozen=True)
class Layout:
    """Coefficients and intercept of one output after the other, then `further` ones.

    `features` are the names of those with a coefficient, `outputs` the labels of
    several outputs, and `further` names parameters with no part in the linear
    predictor.
    """

    features: tuple
    intercept: bool
    outputs: tuple = ()
    further: tuple = ()

    @property
    def n_outputs(self):
        """Linear predictors of a row."""
        return len(self.outputs) or 1

    @property
    def names(self):
        """Of all coordinates, all different."""
        intercept = ["intercept"] * self.intercept
        names = distinct([*self.features, *intercept, *self.further])
        if not self.outputs:
            return names
        return distinct(f"{label}: {name}" for label in self.outputs for name in names)

    def split(self, parameters):
        """Coefficients (..., n_outputs, n_features), intercepts, further ones."""
        *outer, dim = parameters.shape
        n_linear = dim - len(self.further)
        linear = parameters[..., :n_linear].reshape(*outer, self.n_outputs, -1)
        coef = linear[..., : len(self.features)]
        intercept = linear[..., -1] if self.intercept else np.zeros(coef.shape[:-1])
        return coef, intercept, parameters[..., n_linear:]


def feature_names(estimator):
    """Names of the columns that an estimator has seen: those of the data, or x0, ..."""
    default = [f"x{i}" for i in range(estimator.n_features_in_)]
    return tuple(map(str, getattr(estimator, "feature_names_in_", default)))


def distinct(names):
    """The names as strings; one that came before gets a number."""
    seen = {}
    for name in map(str, names):
        free = (f"{name} ({n})" if n > 1 else name for n in count(1))
        seen[next(candidate for candidate in free if candidate not in seen)] = None
    return list(seen)


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearModel:
    """Likelihood, priors and layout of a linear model, with all that rows have set.

    `level_prior` is that of a last coordinate, the logarithm of a noise scale or of a
    dispersion, where the likelihood has one; `exposed` says whether rows of the fit had
    offsets. `centre` are means of columns, where the intercept has its prior. `begun`
    is the model of the first batch of several, whose prior is that of all of them.
    """

    layout: Layout
    likelihood: object
    prior: Prior
    scale: np.ndarray
    centre: np.ndarray | None = None
    level_prior: object = None
    temperature: float = 1.0
    begun: object = None
    exposed: bool = False

    # Of models whose noise has no parameter.
    target = GLMTarget
    # What answers about probabilities in place of `predictive`, if anything.
    forecast = None

    def joint(self, rows):
        """The log joint density of rows, a target."""
        level = () if self.level_prior is None else (self.level_prior,)
        kind = NoisyGLMTarget if level else self.target
        return kind(
            rows,
            self.likelihood,
            *level,
            prior=self.prior,
            scale=self.scale,
            temperature=self.temperature,
            fit_intercept=self.layout.intercept,
            centre=self.centre,
        )

    def start(self, target, rows):
        """Points (n, dim) from which the first component is searched."""
        return np.zeros((1, target.dim))

    def likelihood_of(self, rows):
        """The log likelihood alone, as a target."""
        model = replace(
            self,
            prior=FlatPrior(),
            scale=np.ones_like(self.scale),
            centre=None,
            level_prior=self.level_prior and self.level_prior.flat(),
            temperature=1.0,
        )
        return model.joint(rows)

    def log_joint(self, rows):
        """The log joint density of all rows so far, as users call it."""
        return LogJoint((self.begun or self).joint(rows), self.layout.names)

    @property
    def scale_prior(self):
        """Prior and scales of the coefficients where a common factor is learned."""
        first = self.begun or self
        return None if first.prior.closed else (first.prior, first.scale)

    def renamed(self, features):
        """The same model with other names of its features."""
        return replace(self, layout=replace(self.layout, features=features))

    def predictive(self, mixture):
        """What answers about rows, given the mixture over coefficients."""
        raise NotImplementedError

    def with_fit(self, mixture, rows):
        """The model with what it knows of the mixture and the rows of its fit."""
        return self

    def means(self, mixture):
        """Posterior means of coefficients and intercepts; see `Layout.split`."""
        coef, intercept, _ = self.layout.split(mixture.drop_zero_weights().mean())
        return coef.copy(), intercept.copy()

    def attributes(self, mixture):
        """Fitted attributes of this kind of model."""
        coef, intercept = self.means(mixture)
        return {"coef_": coef[0], "intercept_": float(intercept[0])}


# --- priors in the unit of the data


def priors_of(estimator, rows, layout, unit=1.0, level=0.0, chosen=None, prior=None):
    """``prior``, ``scale`` and ``centre`` of a `LinearModel` of these rows, a dict.

    `unit` is the size of what the linear predictor has to explain, `level` where it
    lies; `chosen` is the scale of the prior and `prior` its kind, None for the
    estimator's.
    """
    scaled = prior_and_scale(estimator, rows, layout, unit, level, chosen, prior)
    prior, scale = scaled
    centre, n = column_moments(rows)[0], rows.n_features
    if not layout.intercept:
        centre = None
    elif layout.n_outputs * (n + 1) > MAX_FULL_DIM:
        # There is no room for covariances with the intercept: its prior is at the zeros
        # of the columns.
        scale[n], centre = np.linalg.norm(scale * [*centre, 1.0]), None
    return {"prior": prior, "scale": scale, "centre": centre}


def prior_and_scale(
    estimator, rows, layout, unit=1.0, level=0.0, chosen=None, prior=None
):
    """The prior of an estimator's parameters, and its scales for these rows; see
    `priors_of`.
    """
    named = estimator.prior if prior is None else prior
    own = []
    if isinstance(named, dict):
        named, own = "normal", own_priors(named, layout.features)
    principal = isinstance(named, str) and named == "principal"
    prior = _prior_of_all("normal" if principal else named)
    chosen = estimator.prior_scale if chosen is None else chosen
    follows = isinstance(chosen, str | ScalePrior)
    n, scale, basis = rows.n_features, chosen, None
    if follows:
        # One unit of the response for one of the feature.
        widths, basis = _of_products(estimator, rows, layout.features)
        scale = unit / column_moments(rows)[1] * widths
    # A prior object's own scale counts: the default of 1 leaves it as it is.
    scale = validate_scale(scale, n) * prior.resolve_scale(n)
    for column, one in own:
        scale[column] = one.scale
    if layout.intercept:
        width = estimator.intercept_scale
        if isinstance(width, str):
            # Ten units of the response, where a coefficient has one for one of the
            # feature: the classifier's defaults, 1 and 10, are the same on scaled
            # features.
            width = np.linalg.norm([10.0 * unit, level])
        scale = np.append(scale, width)
    if own:
        prior = ColumnPriors(prior, own, len(scale))
    if not follows or chosen == "auto" or len(own) == n:
        return prior, scale
    # Scale of the half-t prior of a scale that is learned, in units of the columns.
    # Between 1 and 2.5 the log losses of benchmarks/few_rows.py differ by .005 nats on
    # average.
    factor = HalfTPrior(scale=1.5) if chosen == "learn" else clone(chosen).checked()
    shared = np.arange(len(scale)) < n
    if principal:
        covariance = column_covariance(rows) * np.outer(scale[:n], scale[:n])
        if basis is not None:
            covariance = basis.T @ covariance @ basis
        rest = factor, layout.n_outputs, basis
        return PrincipalScale(shared, covariance, *rest), scale
    shared[[column for column, _ in own]] = False
    if basis is not None:
        shared[:n] &= np.diag(basis) ** 2 > _NEAR
    kind = ColumnScale if own else CommonScale
    return kind(prior, shared, layout.n_outputs * int(shared.sum()), factor), scale


def _of_products(estimator, rows, features):
    """Scales (n_features,) of coefficients as multiples of those of single columns, and
    a root of their correlation matrix; 1 and None of no formula or one without products
    of numbers.

    A column that lies far from zero lends its mean to the products that it is in, and
    what the other factors do alone is then said of that zero. What is known before the
    data is about the remainder r of a product after the columns l that it contains,
    ``x = r + g . l`` by least squares, which is the same wherever columns have their
    zeros: the product's coefficient b has one unit of the response for one standard
    deviation of r, and the coefficients of l are those about the centre less g b. Most
    priors take the variances alone: those that are not normal are products over
    columns, and where rows determine coefficients, wide scales leave them to the rows.
    Of a scale that is learned those at a far zero say what the products do, which would
    shrink twice: they have no part in it.
    """
    design = getattr(estimator, "_design", None)
    products = design.products if design else ()
    if not products or len(features) > MAX_FULL_DIM:
        return 1.0, None
    place = {name: column for column, name in enumerate(features)}
    unit, root = 1.0 / column_moments(rows)[1], np.eye(len(features))
    covariance = column_covariance(rows) * np.outer(unit, unit)
    for names, contained in products:
        of, lower = [[place[one] for one in some] for some in (names, contained)]
        shared = covariance[np.ix_(lower, of)]
        within = covariance[np.ix_(lower, lower)]
        slopes = np.linalg.lstsq(within, shared, rcond=None)[0]
        left = covariance[of, of] - (slopes * shared).sum(axis=0)
        # Of a product that the others determine only rounding is left.
        known = left > _DETERMINED
        root[np.ix_(lower, of)] = -slopes * known
        root[:, of] /= np.sqrt(np.where(known, left, 1.0))
    widths = np.linalg.norm(root, axis=1)
    return widths, root / widths[:, None]


def _prior_of_all(named):
    """The prior of coefficients without one of their own, by its name or an object."""
    prior = as_prior(named)
    if prior is named:
        # A clone: what was fitted does not change with the parameters.
        prior = clone(prior)
    if isinstance(prior, NormalPrior) and np.any(np.not_equal(prior.mean, 0.0)):
        raise ValueError(
            "mean of a NormalPrior must be 0.0 where it is that of all coefficients; "
            f"got {prior.mean!r}. Give it to single ones by name: "
            "prior={'age': NormalPrior(scale=1.0, mean=0.5)}."
        )
    return prior


def own_priors(given, features):
    """Pairs of a column and its `Prior`, from a dict by names or indices."""
    found = {}
    for key, prior in given.items():
        names = [column for column, name in enumerate(features) if name == key]
        if isinstance(key, Integral) and 0 <= key < len(features):
            names = [int(key)]
        if len(names) != 1 or names[0] in found:
            raise ValueError(
                "prior must have names of columns as keys, or their indices, and each "
                f"column once; got {key!r} for columns {list(features)[:10]}. The "
                "columns of arrays are 'x0', 'x1', and so on; in a pipeline "
                "set_output(transform='pandas') keeps names."
            )
        prior = clone(as_prior(prior))
        scale, mean = prior.scale, getattr(prior, "mean", 0.0)
        if np.ndim(scale) or np.ndim(mean) or not np.isfinite(mean):
            raise ValueError(
                f"prior of {key!r} must have a number as its scale, and a finite one "
                f"as its mean; got {prior!r}."
            )
        validate_scale(scale, 1)
        found[names[0]] = prior
    return sorted(found.items())


def highest_point(target, start, unit):
    """Where quasi-Newton ascent from `start`, in coordinates of size `unit`, ends.

    Both are about the centre of the columns, and what is found is not. Where a scale is
    to be learned, that of the smallest one that is tried.
    """
    budget = target.ledger.budget
    if target.scale_prior is not None:
        smallest = target.scale_prior.factor.scale * np.exp(-4.0)
        target = target.at_common_scale(smallest)
    about = CentredTarget(target)
    found = find_mode(about, start, unit, origin=start, budget=budget, maxiter=500)
    return target.centring.back(found)


def name_of_prior(prior):
    """What the prior of the coefficients is called."""
    if isinstance(prior, PrincipalScale):
        return "principal"
    kind = type(getattr(prior, "rest", getattr(prior, "coef", prior)))
    return next((name for name, one in PRIORS.items() if one is kind), kind.__name__)
