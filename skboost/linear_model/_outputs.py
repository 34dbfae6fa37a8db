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


def fit_outputs(model, method, X, y, sample_weight):
    """Fitted attributes of a model with one estimator for every column of `y`.

    Each has the seed of the model, so that it is what a fit of its column alone
    gives.

    Parameters
    ----------
    model : estimator
        Whose estimators go on under ``warm_start`` and `partial_fit`.
    method : {"fit", "partial_fit"}
    X : array-like, as the user passed it
    y : ndarray of shape (n_samples, n_outputs)
    sample_weight : array-like or None

    Returns
    -------
    dict
    """
    estimators = _estimators(model, method, y.shape[1])

    def fitted(k):
        weight = {} if sample_weight is None else {"sample_weight": sample_weight}
        return methodcaller(method, X, y[:, k], **weight)(estimators[k])

    try:
        done = chunked_map(fitted, list(range(y.shape[1])), model.n_jobs, "shared")
    except KeyboardInterrupt as interruption:
        begun = [e if "posterior_" in vars(e) else None for e in estimators]
        raise OutputsInterrupted(begun) from interruption
    return attributes_of(done)


def attributes_of(estimators):
    """Fitted attributes of a model from those of its outputs, a dict."""
    # One array each, with an entry for each output.
    stacked = (
        "coef_", "intercept_", "noise_scale_", "elbo_", "elbo_se_", "pareto_k_",
        "remaining_kl_", "remaining_kl_se_", "remaining_kl_interval_",
    )  # fmt: skip
    attributes = {
        name: np.array([vars(e)[name] for e in estimators]) for name in stacked
    }
    messages = [f"Output {k}: {e.message_}" for k, e in enumerate(estimators)]
    return attributes | {
        "estimators_": estimators,
        "posterior_": [e.posterior_ for e in estimators],
        "calibration_": [e.calibration_ for e in estimators],
        "skewing_": [e.skewing_ for e in estimators],
        "n_iter_": max(e.n_iter_ for e in estimators),
        "converged_": all(e.converged_ for e in estimators),
        "message_": "\n".join(messages),
    }


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


class OutputsInterrupted(KeyboardInterrupt):
    """An interruption, with what every output had by then: an estimator or None."""

    def __init__(self, estimators):
        super().__init__()
        self.estimators = estimators


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
        if method == "fit":
            self._forget_names()
        try:
            attributes = fit_outputs(self, method, X, y, sample_weight)
        except OutputsInterrupted as interruption:
            begun = interruption.estimators
            # Rows of partial_fit could not be passed once more to some outputs only.
            if method == "fit":
                self._begun_outputs = begun
                if all(one is not None for one in begun):
                    self._set_outputs(attributes_of(begun))
            raise KeyboardInterrupt from interruption
        self._set_outputs(attributes)
        return self

    def _forget_outputs(self):
        """A fit of one response has no estimators of several."""
        for name in ("estimators_", "_begun_outputs"):
            vars(self).pop(name, None)

    def _set_outputs(self, attributes):
        # Paths and the like of an earlier fit of one response are not of this one.
        kept = {"n_features_in_", "feature_names_in_"}
        found = {name for name in vars(attributes["estimators_"][0]) if name[-1] == "_"}
        own = {"_run", "_stages", "_seed", "_kind", "_joint", "_begun_outputs"}
        for name in (found - kept) | own:
            vars(self).pop(name, None)
        vars(self).update(attributes)

    def _joint_outputs(self, X, y, sample_weight):
        """The log joint of every output, a list."""
        return [
            model.make_log_joint(X, column, sample_weight)
            for model, column in zip(self.estimators_, y.T, strict=True)
        ]

    def _renamed(self):
        if self._models is None:
            super()._renamed()
            return
        for model in self._models:
            model.set_feature_names(self._set_names)
        self.posterior_ = [model.posterior_ for model in self._models]
