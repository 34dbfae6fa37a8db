"""What the regressions without groups share: a fit, an update, a log joint density."""

from dataclasses import replace
from functools import partial
from inspect import signature
from numbers import Integral

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skboost._budget import Budget
from skboost._parameters import refuse_unknown
from skboost._random import root_seed
from skboost._sklearn import registered_callbacks
from skboost.fitting import with_search
from skboost.linear_model._formula_estimator import FormulaEstimator
from skboost.linear_model._methods import tails_of, weighted_draws
from skboost.linear_model._model import feature_names
from skboost.linear_model._summary import check_spread
from skboost.posterior import MixturePosterior
from skboost.targets import updated_target


class FlatRegression(FormulaEstimator):
    """A boosted posterior over coefficients of rows without groups.

    Subclasses say how responses are read, ``_reader(before, named)``, what is read of
    the arguments of `fit`, ``_arranged(reader, before, X, y, ...)``, and which model
    that is, ``_model(rows, reader)``. `before` is the model of rows before these, or
    None, and `named` are the classes that a user named.
    """

    def _source(self, reader, *arrays):
        """Rows of a new fit in memory, in a file or in blocks, a `RowSource`."""
        return reader.source(self, *arrays)

    @property
    def prior_scale_(self):
        """Posterior mean of the learned factor of the prior's scale."""
        s, mass = self._scale_posterior()
        return float(mass @ s)

    def prior_scale_interval(self, level=0.9):
        """Central credible interval of the learned factor of the prior's scale.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability inside, in (0, 1).

        Returns
        -------
        ndarray of shape (2,)
            Lower and upper end.
        """
        tails = tails_of(level)
        s, mass = self._scale_posterior()
        # Half of a node's mass lies below it.
        return np.exp(np.interp(tails, mass.cumsum() - 0.5 * mass, np.log(s)))

    def _scale_posterior(self):
        """A grid of the factor and its probabilities."""
        check_is_fitted(self)
        model = self._model_
        if model.scale_prior is None:
            raise AttributeError(
                f"This {type(self).__name__} has learned no scale: it was fitted with "
                f"prior_scale={self.prior_scale!r}. Set prior_scale='learn'."
            )
        prior, scale = model.scale_prior
        n = self.posterior_.dim - len(model.layout.further)
        # Draws of the coefficients from which the posterior of the factor is computed.
        theta, masses = weighted_draws(self.posterior_, 2048)
        log_mass = prior.log_posterior(theta[:, :n], np.resize(scale, n))
        return np.exp(prior.log_s), masses @ np.exp(log_mass)

    def make_log_joint(self, X, y, sample_weight=None, **keywords):
        """The fitted model's log joint density on some rows, as a function.

        What `fit` approximated, for the methods of `posterior_` that ask for a
        ``log_joint``: prior with the scales that "auto" found, class weights and
        temperature are those of the fit, whose rows are passed again: after
        `partial_fit`, whose prior is that of the first call, all rows so far.
        ``class_weight="balanced"`` balances the rows that are passed here.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
        **keywords
            What else `fit` takes for each row, such as ``offset``. What it took by
            names of columns is found by these.

        Returns
        -------
        LogJoint
            Takes (n, dim) draws of the coordinates of `posterior_` and gives (n,)
            nats; ``.gradient`` takes the same and gives (n, dim).
        """
        check_is_fitted(self)
        refuse_unknown("make_log_joint", type(self).fit, {}, keywords)
        of_rows = dict.fromkeys([*signature(type(self).fit).parameters][3:])
        of_rows |= {"sample_weight": sample_weight} | keywords
        model, reader = self._model_, self._reader_again()
        rows = self._arranged(reader, model, *self._read(X, y, True, **of_rows))
        return model.log_joint(reader.held(self, *rows, reset=False))

    def _reader_again(self):
        """What reads rows of the fit once more, whatever parameters are by now."""
        return self._reader(self._model_)

    def _learn(self, rows, data, again, named=None):
        before = vars(self).get("_model_") if again else None
        reader = self._reader(before, named)
        arrays = self._arranged(reader, before, *rows)
        if again:
            rows = reader.held(self, *arrays, reset=before is None)
        else:
            rows = self._source(reader, *arrays)
        if before is None:
            check_spread(rows, feature_names(self))
        return self._learn_model(self._model(rows, reader), rows, data, again)

    def _learn_model(self, model, rows, data, again):
        """The fit of a model to its rows.

        With `again` the posterior so far is the prior, where there is one. Of a model
        that forecasts without its posterior that comes where something of it is asked
        for, but where the run itself is wanted.
        """
        heard = self.warm_start or registered_callbacks(self)
        if model.forecast is not None and not heard:
            return self._learn_later(model, rows, data)
        return self._learn_now(model, rows, data, again)

    def _learn_now(self, model, rows, data, again=False):
        before = vars(self).get("_model_")
        if again and before is not None:
            begun = before.begun or before
            exposed = model.exposed or before.exposed
            model = model.renamed(before.layout.features)
            model = replace(model, begun=begun, exposed=exposed)
            target, start = self._updated(model, rows)
        else:
            target = model.joint(rows)
            start = partial(model.start, target, rows)
            if target.scale_prior is None:
                # Seconds of the fit count from here, too.
                with target.ledger.within(Budget(self.max_time), raises=False):
                    start = start()
        return self._boost(
            target,
            data,
            lambda fit: (
                {"_model_": model.with_fit(fit.mixture, rows)}
                | model.attributes(fit.mixture)
            ),
            starts=start,
            names=model.layout.names,
            update=again,
        )

    def _learn_later(self, model, rows, data):
        """The model's forecast now; the rest is by the parameters of now."""
        other, params = object.__new__(type(self)), self.get_params(deep=False)
        vars(other).update(params)
        if not isinstance(self.random_state, Integral):
            # What is drawn of a generator is drawn within the fit.
            other.random_state = root_seed(self.random_state)
        target = model.joint(rows)
        probe = np.linspace(-1.0, 1.0, target.dim)[None]
        before = target.log_density(probe)

        def fitted():
            if not np.array_equal(before, target.log_density(probe)):
                raise ValueError(
                    "The rows that this model was fitted to were changed in place "
                    "before its posterior was asked for. Fit again, or ask for "
                    "posterior_ before the rows are changed."
                )
            found = vars(other._learn_now(model, rows, data))
            return {name: found[name] for name in found.keys() - params}

        self._await({"_model_": model} | model.attributes(None), fitted)
        return self

    def _updated(self, model, rows):
        """Rows with the posterior so far as their prior, and where to start."""
        names, before = model.layout.names, self._model_.layout.names
        if names != before:
            raise ValueError(
                f"partial_fit goes on with the same parameters; got {names} after "
                f"{before}. Set what was changed back, or fit a clone."
            )
        # Without orbits, whose image is no mixture.
        posterior = MixturePosterior(self._fit.mixture)
        most = with_search(self.get_params(deep=False))["max_components"]
        if most is not None:
            posterior = posterior.truncate(most)
        likelihood = model.likelihood_of(rows)
        target = updated_target(likelihood, posterior.mixture, model.temperature)
        return target, posterior.mean()[None]
