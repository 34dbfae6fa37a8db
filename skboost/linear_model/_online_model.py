"""What an online fit goes by, as one frozen object."""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.special import expit

from skboost.families import Component, FullGaussian
from skboost.linear_model._model import Layout
from skboost.linear_model._predictive import with_ones
from skboost.online import ONLINE_METHODS, DiagonalStream, FullStream, Rule, dense
from skboost.serving import GaussianPart, shares
from skboost.targets import Centre, NormalNoise

_STREAMS = {"diag": DiagonalStream, "full": FullStream}
# What lies further from zero than so many standard deviations of its prior is measured
# from the first row. Standardised columns never are.
_FAR = 10.0


class Numbers:
    """Responses of a regression: one stream."""

    n_outputs = 1

    def level(self, y, scale):
        """Where responses are measured from: the first, if it is far from zero."""
        return y[0] if abs(y[0]) > _FAR * scale else 0.0

    def outputs(self, y):
        """The responses of every stream."""
        return [y]

    def losses(self, streams, records, y):
        """Loss of every row at what was said of it before its update, nats."""
        return streams[0].losses(records[0], y)

    def shaped(self, coef, intercept):
        """Coefficients and intercepts (n_outputs, ...) as users meet them."""
        return coef[0], float(intercept[0])


@dataclass(frozen=True)
class Codes:
    """Classes as codes: one stream for two, or one for each against the rest."""

    n_classes: int

    @property
    def n_outputs(self):
        return 1 if self.n_classes == 2 else self.n_classes

    def level(self, codes, scale):
        return 0

    def outputs(self, codes):
        positive = [1] if self.n_outputs == 1 else range(self.n_outputs)
        return [(codes == k).astype(float) for k in positive]

    def losses(self, streams, records, codes):
        if self.n_outputs == 1:
            return streams[0].losses(records[0], codes)
        p = shares(expit(np.stack(records, axis=1)))
        return -np.log(p[np.arange(len(codes)), codes])

    def shaped(self, coef, intercept):
        return coef, intercept


@dataclass(frozen=True)
class OnlineModel:
    """What every batch of a stream goes by."""

    layout: Layout
    responses: object
    rule: Rule
    stream: type
    # Parameters that cannot change between batches.
    fixed: dict
    batch_size: int | None
    # Standard deviation of a linear predictor, before anything is learned, above which
    # steps of one row each overshoot.
    widest_spread: float
    # Of a noise scale that is inferred.
    noise_prior: tuple = ()
    # Where columns and responses have their zero within the streams. Codes of classes
    # stay whole numbers.
    centring: Centre = Centre()
    level: float = 0

    # No rows of a stream have offsets; noise of numbers is normal.
    exposed, forecast = False, None
    noise = NormalNoise()

    def about(self, batch, scale):
        """The same model, where columns far from zero and responses are measured from
        the first row of a stream: there the intercept has its prior.
        """
        if not (self.layout.intercept and len(batch.y)):
            return self
        level = self.responses.level(batch.y, self._response_scale())
        if sparse.issparse(batch.X):
            return replace(self, level=level)
        first = batch.X[0]
        far = np.abs(first) * scale > _FAR
        columns = np.where(far, first, 0.0) if far.any() else None
        centring = Centre(columns, self.responses.n_outputs)
        return replace(self, centring=centring, level=level)

    def _response_scale(self):
        """Of the noise before anything is seen."""
        if not self.noise_prior:
            return self.rule.loss.noise_scale
        ((shape, rate),) = self.noise_prior
        return np.sqrt(rate / shape)

    def begin(self, scale):
        """The prior, as streams that have seen nothing."""
        one = self.stream.begin(self.rule, scale, *self.noise_prior)
        return (one,) * self.responses.n_outputs

    def going_on(self, before, streams):
        """This model where the one before measured from, and the streams by its rule; a
        ValueError after another model.
        """
        if self.fixed != before.fixed:
            raise ValueError(
                f"partial_fit goes on with the same model; got {self.fixed} after "
                f"{before.fixed}. Begin with a clone."
            )
        model = replace(self, centring=before.centring, level=before.level)
        return model, tuple(replace(stream, rule=self.rule) for stream in streams)

    def centred(self, X):
        """Rows as they are measured within the streams."""
        columns = self.centring.columns
        return X if columns is None else dense(X) - columns

    def absorb(self, streams, X, y, weight):
        """The streams after rows, and the losses of these before their updates."""
        X, y, after, records = self.centred(X), y - self.level, [], []
        X = with_ones(X) if self.layout.intercept else X
        for stream, response in zip(streams, self.responses.outputs(y), strict=True):
            absorb = stream.absorb if self.batch_size is None else stream.absorb_batch
            stream, record = absorb(X, response, weight)
            after.append(stream)
            records.append(record)
        losses = self.responses.losses(after, records, y)
        return tuple(after), weight * losses

    def shaped(self, vectors):
        """Coefficients and intercepts of one vector for each stream."""
        coef, intercept, _ = self.layout.split(self.back(np.concatenate(vectors)))
        return self.responses.shaped(coef, intercept)

    def back(self, theta):
        """Parameters (..., dim) of the columns as they are."""
        theta = self.centring.back(theta)
        return theta + self.level * (np.arange(1 - theta.shape[-1], 1) == 0)

    def component_back(self, component):
        """A density of the parameters of columns as they are."""
        if self.centring.columns is None and not self.level:
            return component
        family = component.family
        mean, variance, factor = family.structure(component.params)
        if factor is None:
            family, factor = FullGaussian(), np.diag(np.sqrt(variance))
        factor = self.centring.back(factor.T).T
        return Component(family, FullGaussian().from_factor(self.back(mean), factor))

    def parts(self, streams):
        """The coefficients of every stream, as plain predictions see them."""
        one = replace(self, centring=self.centring._replace(n_outputs=1))
        return tuple(map(one._part, streams))

    def _part(self, stream):
        mean, covariance = self.back(stream.mean), stream.covariance
        columns, back = self.centring.columns, self.centring.back
        if covariance.ndim == 2:
            factor = back(np.linalg.cholesky(covariance).T).T
            return GaussianPart(mean, factor=factor)
        if columns is None:
            return GaussianPart(mean, covariance)
        # Columns measured from elsewhere are those that the intercept goes with.
        far = np.flatnonzero(columns)
        roots, rest = np.zeros((len(far), len(mean))), covariance.copy()
        roots[np.arange(len(far)), far] = np.sqrt(rest[far])
        rest[far] = 0.0
        return GaussianPart(mean, rest, back(roots).T)

    def renamed(self, names):
        """The same model with other names of the features."""
        return replace(self, layout=replace(self.layout, features=names))


def rule_of(estimator, loss):
    """Stream and `Rule` of the parameters; a ValueError where they have no meaning."""
    method = ONLINE_METHODS[estimator.method]()
    covariance = _covariance(estimator, method)
    rate, beta = estimator.learning_rate, estimator.beta
    if isinstance(rate, str):
        rate = method.default_rate(loss.noise_scale**2)
    if isinstance(beta, str):
        # On streams of data, independent coordinates overshoot with more.
        beta = {"diag": 0.1, "full": 0.5}[covariance]
    if rate == np.inf and not method.accumulates:
        raise ValueError(
            f"method={estimator.method!r} needs a finite learning_rate; got inf. Only "
            "method='ngvi' has that limit."
        )
    rule = Rule(method, loss, rate, beta, estimator.forgetting)
    return _STREAMS[covariance], rule


def _covariance(estimator, method):
    """The covariance that the parameters ask for, "diag" or "full"."""
    allowed, chosen = method.covariances, estimator.covariance
    if chosen == "auto":
        # The same limit as that of boosted estimators.
        chosen = "full" if estimator.n_features_in_ <= 300 else "diag"
        return chosen if chosen in allowed else allowed[0]
    if chosen not in allowed:
        raise ValueError(
            f"covariance={chosen!r} needs a method that has it; got "
            f"method={estimator.method!r}, which has {list(allowed)}. Use "
            "covariance='auto'."
        )
    return chosen


def fixed_parameters(estimator, *further):
    """Parameters that cannot change between batches, by name."""
    names = ("method", "covariance", "fit_intercept", *further)
    return {name: vars(estimator)[name] for name in names}
