"""Several responses at once: one fit for each column of y."""

from functools import wraps
from itertools import zip_longest

import numpy as np
from sklearn.base import clone

from skboost._parallel import chunked_map
from skboost._random import root_seed

# Attributes that are one array with an entry for each output.
_STACKED = ("coef_", "intercept_", "noise_scale_", "elbo_", "elbo_se_", "remaining_kl_")


def over_outputs(method):
    """A method that answers for every output where there are several.

    Arrays are stacked along a second axis; of coefficients, along the first.
    """

    @wraps(method)
    def answer(self, *args, **kwargs):
        if not hasattr(self, "estimators_"):
            return method(self, *args, **kwargs)
        parts = [method(m, *args, **kwargs) for m in self.estimators_]
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
        return getattr(estimators[k], method)(X, y[:, k], **weight)

    done = chunked_map(fitted, list(range(y.shape[1])), model.n_jobs, "shared")
    attributes = {name: np.array([getattr(e, name) for e in done]) for name in _STACKED}
    return attributes | {
        "estimators_": done,
        "posterior_": [e.posterior_ for e in done],
        "n_iter_": max(e.n_iter_ for e in done),
        "converged_": all(e.converged_ for e in done),
        "message_": "\n".join(f"Output {k}: {e.message_}" for k, e in enumerate(done)),
    }


def _estimators(model, method, n_outputs):
    """The estimators to fit: new ones, or copies of those to go on with."""
    old = getattr(model, "estimators_", None)
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
        if going_on:
            # What was fitted, not the parameters: a fit that fails must not show.
            kept = {n: v for n, v in vars(old[k]).items() if n not in vars(one)}
            vars(one).update(kept)
        made.append(one)
    return made


class SeveralOutputs:
    """Estimators that hold one of their kind for each column of `y`, where it has any.

    Mixed in before a boosted linear model.
    """

    def _check_same_outputs(self, y):
        before = len(self.estimators_) if hasattr(self, "estimators_") else None
        now = y.shape[1] if y.ndim == 2 else None
        if before != now:
            raise ValueError(
                "y must have as many columns as at the first partial_fit "
                f"({before or 'one dimension'}); got {now or 'one dimension'}."
            )

    def _fit_outputs(self, method, X, y, sample_weight):
        if method == "fit":
            self._forget_names()
        attributes = fit_outputs(self, method, X, y, sample_weight)
        # Paths and the like of an earlier fit of one response are not of this one.
        kept = {"n_features_in_", "feature_names_in_"}
        found = {name for name in vars(attributes["estimators_"][0]) if name[-1] == "_"}
        for name in (found - kept) | {"_run", "_stages", "_seed", "_kind", "_joint"}:
            vars(self).pop(name, None)
        vars(self).update(attributes)
        return self

    def _joint_outputs(self, X, y, sample_weight):
        """The log joint of every output, a list."""
        return [
            model.make_log_joint(X, column, sample_weight)
            for model, column in zip(self.estimators_, y.T, strict=True)
        ]

    def _renamed(self):
        if not hasattr(self, "estimators_"):
            super()._renamed()
            return
        for model in self.estimators_:
            model.set_feature_names(self._set_names)
        self.posterior_ = [model.posterior_ for model in self.estimators_]
