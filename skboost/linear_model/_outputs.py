"""Several responses at once: one fit for each column of y."""

from functools import wraps
from itertools import zip_longest
from operator import methodcaller

import numpy as np
from sklearn.base import clone

from skboost._parallel import chunked_map
from skboost._random import root_seed


def over_outputs(method):
    """A method that answers for every output where there are several.

    Arrays are stacked along a second axis; of coefficients, along the first.
    """

    @wraps(method)
    def answer(self, *args, **kwargs):
        if self._models is None:
            return method(self, *args, **kwargs)
        parts = [method(m, *args, **kwargs) for m in self._models]
        axis = 0 if method.__name__ == "coef_interval" else 1
        if isinstance(parts[0], tuple):
            return tuple(np.stack(p, axis=axis) for p in zip(*parts, strict=True))
        return np.stack(parts, axis=axis)

    return answer


def staged_over_outputs(stages):
    """Predictions of all outputs after every iteration; what is done stands still."""
    last = [None] * len(stages)
    for parts in zip_longest(*stages):
        last = [
            old if new is None else new for new, old in zip(parts, last, strict=True)
        ]
        yield np.stack(last, axis=1)


def _estimators(model, method, n_outputs):
    """The estimators to fit: new ones, or copies of those to go on with."""
    # Of an interrupted fit those that had not begun are None.
    old = model._models or vars(model).get("_begun_outputs")
    going_on = old is not None and (method == "partial_fit" or model.warm_start)
    if going_on and len(old) != n_outputs:
        raise ValueError(
            f"y must have {len(old)} columns, as before; got {n_outputs}. Fit a new "
            "estimator, or set warm_start=False."
        )
    seed = root_seed(model.random_state)
    made = []
    for k in range(n_outputs):
        one = clone(model).set_params(n_jobs=None)
        if not isinstance(model.random_state, int | np.integer):
            one.set_params(random_state=seed)
        if going_on and old[k] is not None:
            # What was fitted, not the parameters: a fit that fails must not show.
            kept = {n: v for n, v in vars(old[k]).items() if n not in vars(one)}
            vars(one).update(kept)
        made.append(one)
    return made


class SeveralOutputs:
    """Estimators that hold one of their kind for each column of `y`, where it has any.

    Mixed in before a boosted linear model.
    """

    @property
    def _models(self):
        """The estimators of the columns of `y`; None with one response."""
        return vars(self).get("estimators_")

    def _check_same_outputs(self, y):
        before = None if self._models is None else len(self._models)
        now = y.shape[1] if y.ndim == 2 else None
        if before != now:
            raise ValueError(
                "y must have as many columns as at the first partial_fit "
                f"({before or 'one dimension'}); got {now or 'one dimension'}."
            )

    def _fit_outputs(self, method, X, y, sample_weight):
        """Fit one estimator for every column of `y`, by "fit" or "partial_fit".

        Each has the seed of the model, so that it is what a fit of its column alone
        gives.
        """
        if method == "fit":
            self._forget_names()
        estimators = _estimators(self, method, y.shape[1])
        weight = {} if sample_weight is None else {"sample_weight": sample_weight}

        def fitted(k):
            return methodcaller(method, X, y[:, k], **weight)(estimators[k])

        try:
            chunked_map(fitted, list(range(len(estimators))), self.n_jobs, "shared")
        except KeyboardInterrupt:
            # Rows of partial_fit could not be passed once more to some outputs only.
            if method == "fit":
                begun = [e if "posterior_" in vars(e) else None for e in estimators]
                self._begun_outputs = begun
                if None not in begun:
                    self._set_outputs(begun)
            raise
        self._set_outputs(estimators)
        return self

    def _forget_outputs(self):
        """A fit of one response has no estimators of several."""
        for name in ("estimators_", "_begun_outputs"):
            vars(self).pop(name, None)

    def _set_outputs(self, estimators):
        # Paths and the like of an earlier fit of one response are not of this one.
        kept = {"n_features_in_", "feature_names_in_"}
        found = {name for name in vars(estimators[0]) if name[-1] == "_"}
        own = {"_run", "_stages", "_seed", "_kind", "_joint", "_begun_outputs"}
        for name in (found - kept) | own:
            vars(self).pop(name, None)
        # One array each, with an entry for each output.
        stacked = (
            "coef_", "intercept_", "noise_scale_", "elbo_", "elbo_se_", "pareto_k_",
            "remaining_kl_", "remaining_kl_se_", "remaining_kl_interval_",
        )  # fmt: skip
        for name in stacked:
            vars(self)[name] = np.array([vars(e)[name] for e in estimators])
        for name in ("posterior_", "calibration_", "skewing_"):
            vars(self)[name] = [vars(e)[name] for e in estimators]
        messages = [f"Output {k}: {e.message_}" for k, e in enumerate(estimators)]
        self.estimators_, self.message_ = estimators, "\n".join(messages)
        self.n_iter_ = max(e.n_iter_ for e in estimators)
        self.converged_ = all(e.converged_ for e in estimators)

    def _renamed(self):
        if self._models is None:
            super()._renamed()
            return
        for model in self._models:
            model.set_feature_names(self._set_names)
        self.posterior_ = [model.posterior_ for model in self._models]
