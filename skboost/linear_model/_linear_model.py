"""What the boosted linear models share: priors in the units of the data, updates."""

from dataclasses import replace

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from skboost._base import BOOSTING_CONSTRAINTS, BoostedEstimator
from skboost._elsewhere import MOVED
from skboost._sklearn import InstanceOf, StrOptions
from skboost._solver import climb
from skboost.linear_model._coefficients import POSITIVE, tails_of
from skboost.linear_model._names import NamedFeatures, distinct
from skboost.linear_model._summary import check_spread, column_moments
from skboost.proposals import LOWEST_NODE, CommonScaleProposer
from skboost.targets import (
    PRIORS,
    CommonScale,
    FlatPrior,
    HalfTPrior,
    LogJoint,
    Prior,
    ScalePrior,
    as_prior,
    updated_target,
    validate_scale,
)

LINEAR_MODEL_CONSTRAINTS = {
    **BOOSTING_CONSTRAINTS,
    "prior": [StrOptions(set(PRIORS)), InstanceOf(Prior, "skboost.priors")],
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
}


class BoostedLinearModel(NamedFeatures, BoostedEstimator):
    """A boosted posterior over coefficients, and an intercept where there is one.

    Subclasses give ``_joint_of(rows, prior=None, temperature=None)``, a function that
    makes a target of any `RowSource`: the model, with scales from these rows, the
    estimator's own prior where none is given, and no data in it. ``_joint`` is that of
    the fit. ``_reader()`` says how rows are read.
    """

    _moved = MOVED | {
        "C": "Use prior_scale: the penalty of C is a normal prior of scale sqrt(C).",
        "alpha": "Use prior_scale: the penalty of alpha is a normal prior of scale "
        "1 / sqrt(alpha), in units of the noise.",
        "penalty": "Use prior: 'normal' stands for 'l2', 'laplace' for 'l1'.",
    }

    def _learn(self, rows, given, *, update=False):
        """Boost the posterior of rows, from the prior or from the posterior so far."""
        if update and "posterior_" in vars(self):
            joint, (target, starts) = self._joint, self._updated(rows)
        else:
            self._forget_names()
            check_spread(rows, self._feature_names())
            joint = self._joint_of(rows)
            target, starts = self._first(joint(rows), rows)
        return self._boost(
            target,
            given,
            starts=starts,
            names=self._names(),
            from_scratch=update,
            also={"_joint": joint},
        )

    def _first(self, target, rows):
        """The target of the first data, and where the search starts."""
        return target, None

    def _source(self, reader, *arrays):
        """A `RowSource` of the arguments of ``fit``."""
        return reader.source(self, *arrays)

    def _log_joint(self, rows):
        """The fitted model's log joint on rows in canonical form."""
        return LogJoint(self._joint(rows), self.posterior_.names)

    def _settings(self, rows, prior, temperature, **of_response):
        """Keyword arguments of a `GLMTarget`, all but the data."""
        # A clone: what was fitted does not change with the parameters.
        learns = prior is None and (
            isinstance(self.prior_scale, str | ScalePrior)
            and self.prior_scale != "auto"
        )
        prior = clone(as_prior(self.prior)) if prior is None else prior
        scale = self._scales(rows, prior, **of_response)
        # Scale of the half-t prior of a scale that is learned, in units of the columns.
        # Between 1 and 2.5 the log losses of benchmarks/few_rows.py differ by .005 nats
        # on average.
        typical = 1.5
        if learns:
            shared = np.arange(len(scale)) < rows.n_features
            learn = self.prior_scale == "learn"
            factor = HalfTPrior(scale=typical) if learn else self.prior_scale
            n_shared = self._n_outputs * rows.n_features
            prior = CommonScale(prior, shared, n_shared, clone(factor).checked())
        return {
            "prior": prior,
            "scale": scale,
            "temperature": self.temperature if temperature is None else temperature,
            "fit_intercept": self.fit_intercept,
        }

    def _renamed(self):
        further = self.posterior_.names[self.posterior_.dim - self._n_further :]
        names = self._labelled(self._has_intercept, further)
        self.posterior_ = self.posterior_.renamed(names)

    def _names(self):
        """Names of the coordinates of a posterior that is to be fitted."""
        return self._labelled(self.fit_intercept, self._further_names())

    def _further_names(self):
        """Of parameters with no part in the linear predictor."""
        return ()

    def _labelled(self, has_intercept, further):
        """Names of coordinates, all different."""
        intercept = ["intercept"] if has_intercept else []
        return distinct([*self._coefficient_names(), *intercept, *further])

    def _updated(self, rows):
        """More data with the posterior so far as their prior, and where to start."""
        posterior, names = self.posterior_, self._names()
        if posterior.names is not None and list(posterior.names) != list(names):
            raise ValueError(
                f"partial_fit goes on with the same parameters; got {names} after "
                f"{list(posterior.names)}. Set what was changed back, or fit a clone."
            )
        if self.max_components is not None:
            posterior = posterior.truncate(self.max_components)
        joint = self._joint_of(rows, prior=FlatPrior(), temperature=1.0)
        likelihood = joint(rows)
        target = updated_target(likelihood, posterior.mixture, self.temperature)
        return target, posterior.mean()[None]

    def _engine(self, target, params, starts, seed):
        engine = super()._engine(target, params, starts, seed)
        if target.scale_prior is None:
            return engine
        one = engine.proposer
        proposer = CommonScaleProposer(
            one.target, one.family, one.objective, one.starts, one.box
        )
        return replace(engine, proposer=proposer)

    @property
    def prior_scale_(self):
        """Posterior mean of the learned factor of the prior's scale."""
        return self._of_scale(lambda s, mass: float(mass @ s))

    def prior_scale_interval(self, level=0.9):
        """Central credible interval of the learned factor of the prior's scale.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability inside, in (0, 1).

        Returns
        -------
        ndarray of shape (2,) or (n_outputs, 2)
            Lower and upper end.
        """
        tails = tails_of(level)

        def ends(s, mass):
            # Half of a node's mass lies below it.
            return np.exp(np.interp(tails, mass.cumsum() - 0.5 * mass, np.log(s)))

        return self._of_scale(ends)

    def _of_scale(self, summary):
        """A summary of the factor's posterior: a grid of it, and probabilities."""
        models = vars(self).get("estimators_")
        if models is not None:
            return np.array([model._of_scale(summary) for model in models])
        check_is_fitted(self)
        settings = self._joint.keywords
        prior, scale = settings["prior"], settings["scale"]
        if prior.closed:
            raise AttributeError(
                f"This {type(self).__name__} has learned no scale: it was fitted with "
                f"prior_scale={self.prior_scale!r}. Set prior_scale='learn'."
            )
        posterior = self.posterior_
        n = posterior.dim - self._n_further
        # Draws of the coefficients from which the posterior of a learned scale is
        # computed.
        n_of_scale = 2048
        theta = posterior.sample(n_of_scale, 0)[:, :n]
        log_mass = prior.log_posterior(theta, np.resize(scale, n))
        return summary(np.exp(prior.log_s), np.exp(log_mass).mean(axis=0))

    def _scales(self, rows, prior, unit=1.0, level=0.0):
        """Prior scales of coefficients and intercept, those of "auto" from the data.

        `unit` is the size of what the linear predictor has to explain, `level` where
        it lies.
        """
        chosen = self.prior_scale
        if isinstance(chosen, str | ScalePrior):
            chosen = self._unit_scale(unit, column_moments(rows)[1])
        # A prior object's own scale counts: the default of 1 leaves it as it is.
        n = rows.n_features
        scale = validate_scale(chosen, n) * prior.resolve_scale(n)
        if not self.fit_intercept:
            return scale
        intercept = self.intercept_scale
        if isinstance(intercept, str):
            # Ten units of the response, where a coefficient has one for one of the
            # feature: the classifier's defaults, 1 and 10, are the same on scaled
            # features. Features that are not centred move the intercept.
            mean, _ = column_moments(rows)
            parts = [10.0 * unit, level, *(scale * mean)]
            intercept = np.linalg.norm(parts)
        return np.append(scale, intercept)

    def _unit_scale(self, unit, std):
        """What "auto" is, and the unit of what "learn" learns."""
        return unit / std


def highest_point(target, centre, unit, max_iter=500):
    """Where quasi-Newton ascent from `centre`, in coordinates of size `unit`, ends.

    Where a scale is to be learned, that of the smallest one that is tried.
    """
    if target.scale_prior is not None:
        smallest = target.scale_prior.factor.scale * np.exp(LOWEST_NODE)
        target = target.at_common_scale(smallest)

    def value_and_gradient(z):
        value, score = target.value_and_score((centre + unit * z)[None])
        return value[0], unit * score[0]

    z, _ = climb(value_and_gradient, np.zeros(len(centre)), {"maxiter": max_iter})
    return centre + unit * z
