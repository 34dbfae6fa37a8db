"""Candidates of a grid whose evidence bounds cannot be compared."""

import warnings

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

# Parameters that raise the likelihood to a power, and the value that does not.
_POWERS = {"temperature": 1.0, "class_weight": None}


def model_of(estimator):
    """The last step of a pipeline; any other estimator itself."""
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator


def check_comparable(estimator, candidates):
    """Refuse grids whose bounds are not of the same data and likelihood."""
    made = [
        _copy(estimator).set_params(**{name: _copy(v) for name, v in params.items()})
        for params in candidates
    ]
    kinds = sorted({_kind(one) for one in made})
    if len(kinds) > 1:
        raise ValueError(
            "param_grid must keep the kind of model: ELBOs of models of different "
            f"data (labels, targets or rows) are not comparable; got {kinds}. Search "
            "each kind on its own."
        )
    _check_powers([model_of(one).get_params(deep=True) for one in made])
    _check_formulas([model_of(one).get_params(deep=False) for one in made])
    _check_data([_preprocessing(one) for one in made], kinds[0])


def prior_of(model):
    """The kind of prior of a fitted model, and whether its scale was learned."""
    kind = getattr(model, "prior_", None)
    return kind and (kind, hasattr(model, "prior_scale_"))


def check_priors(priors, candidates):
    """Refuse fits of different priors where the prior is not what is searched."""
    searched = {name.rpartition("__")[2] for one in candidates for name in one}
    found = sorted({prior for prior in priors if prior})
    if len(found) < 2 or searched & {"prior", "prior_scale", "estimator"}:
        return
    shown = [f"{kind!r}, {'learned' if own else 'fixed'} scale" for kind, own in found]
    raise ValueError(
        "param_grid must keep the prior where it does not search it: an automatic one "
        f"depends on the size of X; got {shown} for "
        f"candidates that differ in {sorted(searched)}. Set prior and prior_scale of "
        "the estimator, such as prior='normal', prior_scale='learn'."
    )


def _kind(estimator):
    """What an estimator is to scikit-learn: classifier, regressor or else."""
    kind = get_tags(estimator).estimator_type
    return kind if kind in {"classifier", "regressor"} else "model of X"


def _check_powers(params):
    """Refuse different powers of the likelihood."""
    for name in sorted(set().union(*params)):
        word = name.rpartition("__")[2]
        values = [own.get(name, _POWERS.get(word)) for own in params]
        if word in _POWERS and not all(_same(values[0], other) for other in values):
            raise ValueError(
                f"param_grid must not vary {name}: it raises the likelihood to a "
                "power, and ELBOs of different powers are not comparable. Where log "
                "likelihoods are negative the smallest always wins, however badly it "
                f"fits; got {values}. Choose it by held-out log density: GridSearchCV "
                "with the score of a density model, scoring='neg_log_loss' for a "
                "classifier."
            )


def _check_formulas(params):
    """Refuse formulas of different responses, and of rows that may be different."""
    formulas = {str(own.get("formula")) for own in params}
    lefts = {text.rpartition("~")[0].strip() for text in formulas}
    dropped = any(own.get("missing") == "drop" for own in params)
    if len(lefts) > 1 or (len(formulas) > 1 and dropped):
        raise ValueError(
            "param_grid must keep the left side of formula and, where formulas differ, "
            "missing='raise': ELBOs of different responses or rows are not comparable; "
            f"got {sorted(formulas)}. Drop rows that lack a value before the search."
        )


def _check_data(steps, kind):
    """Refuse models of different X, and warn of labels that are used twice."""
    differing = [own for own in steps if not _same(own, steps[0])]
    if not differing:
        return
    if kind == "model of X":
        raise ValueError(
            "param_grid must not vary the preprocessing of a model of X: a bound on "
            "the density of other data, or of the same data in other units, is not "
            f"comparable; got {steps[0]} and {differing[0]}. Transform X before the "
            "search, or compare by held-out scores."
        )
    for step in sum([steps[0], *differing], []):
        # Some need y; what selects features may use it.
        if hasattr(step, "get_support") or (
            _has_params(step) and get_tags(step).target_tags.required
        ):
            warnings.warn(
                f"{type(step).__name__} may look at y, and the preprocessing differs "
                "between candidates. Labels that choose the features and are modelled "
                "as well count twice: the ELBO is too high, most where most is chosen "
                "from. Compare by held-out scores.",
                stacklevel=6,
            )
            return


def _preprocessing(estimator):
    """The steps before the last one; pipelines may end in pipelines."""
    if not isinstance(estimator, Pipeline):
        return []
    *early, (_, model) = estimator.steps
    return [step for _, step in early] + _preprocessing(model)


def _copy(value):
    """A copy that `set_params` may change; what is no estimator stays the same."""
    if type(value) in (list, tuple):
        return type(value)(map(_copy, value))
    if not _has_params(value):
        return value
    params = value.get_params(deep=False)
    return type(value)(**{name: _copy(own) for name, own in params.items()})


def _same(a, b):
    """Equality of two parameters, of estimators by their own parameters."""
    if _has_params(a) and type(a) is type(b):
        a, b = (list(one.get_params(deep=False).items()) for one in (a, b))
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return a is b or np.array_equal(a, b)


def _has_params(value):
    """Whether a value is an estimator."""
    return hasattr(value, "get_params") and not isinstance(value, type)
