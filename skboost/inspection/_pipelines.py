"""Methods of the last step of a pipeline, for rows as the pipeline takes them."""

import inspect
from copy import copy

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted


def pipeline_method(pipe, method, *args, **kwargs):
    """Call a method of a pipeline's last step, on rows that the others transform.

    A `Pipeline` of scikit-learn has ``predict`` and ``predict_proba`` of its last step
    and no other methods, such as ``predict_proba_interval`` and ``odds_ratios``. This
    function finds them there. Rows go through the steps before, and coefficients have
    the names that these give to columns of a DataFrame, also where their output is
    sparse and has none.

    Parameters
    ----------
    pipe : Pipeline, or a search over one
        Fitted. Of a search its ``best_estimator_`` is taken.
    method : str
        Name of a method of the last step. Where its first parameter is ``X``, rows are
        given as the pipeline takes them.
    *args, **kwargs
        What the method is given.

    Returns
    -------
    object
        What the method returns. The last step itself is not changed.

    Raises
    ------
    AttributeError
        If the last step has no such method.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skboost import BoostedBayesianLogisticRegression
    >>> from skboost.inspection import pipeline_method
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BoostedBayesianLogisticRegression(random_state=0)
    >>> pipe = make_pipeline(StandardScaler(), model).fit(X[:, :4], y)
    >>> pipeline_method(pipe, "predict_proba_interval", X[:6, :4], 0.9).shape
    (6, 2)
    """
    pipe = getattr(pipe, "best_estimator_", pipe)
    if not isinstance(pipe, Pipeline):
        raise TypeError(
            f"pipe must be a Pipeline or a search over one; got {type(pipe).__name__}, "
            "whose methods can be called themselves."
        )
    check_is_fitted(pipe)
    call = getattr(_named_last_step(pipe), method, None)
    if not callable(call):
        raise AttributeError(
            f"The last step of pipe has no method {method!r}: it is a "
            f"{type(pipe[-1]).__name__}."
        )
    if len(pipe) > 1 and next(iter(inspect.signature(call).parameters), None) == "X":
        if args:
            args = (pipe[:-1].transform(args[0]), *args[1:])
        elif "X" in kwargs:
            kwargs = kwargs | {"X": pipe[:-1].transform(kwargs["X"])}
    return call(*args, **kwargs)


def _named_last_step(pipe):
    """The last step; a copy with names where only the steps before know them."""
    last = pipe[-1]
    known = hasattr(last, "feature_names_in_") or not hasattr(pipe, "feature_names_in_")
    if known or not hasattr(last, "set_feature_names"):
        return last
    try:
        names = pipe[:-1].get_feature_names_out()
    except AttributeError:  # a step that names nothing
        return last
    return copy(last).set_feature_names(names)
