"""Candidates of a grid: their settings, their seeds, and what cannot be compared."""

import warnings

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from skboost._random import generator, root_seed


def preprocessing(estimator, prefix=""):
    """Names of the steps before the last one; pipelines may end in pipelines."""
    if not isinstance(estimator, Pipeline):
        return []
    *early, (last, model) = estimator.steps
    names = [prefix + name for name, _ in early]
    return names + preprocessing(model, f"{prefix}{last}__")


def model_of(estimator):
    """The last step of a pipeline; any other estimator itself."""
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator


def settings(estimator, params):
    """Deep parameters of an estimator as a candidate sets them, without copies.

    Unchanged values stay the same objects, so that identity tells what changed.
    """
    found = estimator.get_params(deep=True)
    # A step comes before what is set inside it, and all steps before one.
    for name in sorted(params, key=lambda n: (n.count("__"), _word(n) != "steps", n)):
        value = params[name]
        owner, mark, word = name.rpartition("__")
        of = found.get(owner) if owner else estimator
        replaced, inside = [name], {}
        if word == "steps" and isinstance(of, Pipeline):
            replaced += [owner + mark + step for step, _ in found[name]]
            names = [step for step, _ in value]
            inner = Pipeline(value).get_params(deep=True).items()
            # Without what a pipeline has beside its steps.
            inside = {owner + mark + k: v for k, v in inner if _belongs(k, names)}
        elif _has_params(value):
            inner = value.get_params(deep=True)
            inside = {f"{name}__{key}": v for key, v in inner.items()}
        kept = {k: v for k, v in found.items() if not _belongs(k, replaced)}
        found = kept | {name: value} | inside
    return found


def _has_params(value):
    """Whether a value is an estimator, whose parameters have names of their own."""
    return hasattr(value, "get_params")


def candidate(estimator, params, root, repeat):
    """An unfitted copy with a candidate's parameters and the seeds of a repeat.

    Seeds depend on the repeat and not on the candidate, so a row of the table does
    not depend on what else is in the grid. Preprocessing has one seed for all
    repeats: bounds are only comparable on the same data.
    """
    made = clone(estimator).set_params(**clone(params, safe=False))
    early = preprocessing(made)
    seeds = {}
    for k, name in enumerate(_seed_names(made.get_params(deep=True))):
        stream = 0 if _belongs(name, early) else repeat
        seeds[name] = int(generator(root, stream, k).integers(np.iinfo(np.int32).max))
    return made.set_params(**seeds)


def root_of(random_state, estimator):
    """One seed from the search's `random_state`, or else from the estimator's own."""
    if random_state is None:
        params = estimator.get_params(deep=True)
        own = [params[name] for name in _seed_names(params)]
        random_state = next((state for state in own if state is not None), None)
    return root_seed(random_state)


def check_comparable(estimator, candidates):
    """Refuse grids whose ELBOs do not speak of the same data and likelihood.

    Raises
    ------
    ValueError
        Where candidates differ in seed, in a power of the likelihood, in what is
        modelled, or in the data that a density model gets.
    """
    _check_seeds(candidates)
    made = [
        clone(estimator).set_params(**clone(params, safe=False))
        for params in candidates
    ]
    found = [settings(estimator, params) for params in candidates]
    # Candidates may differ in their steps.
    early = list(dict.fromkeys(step for one in made for step in preprocessing(one)))
    # These raise the likelihood to a power; so they do not.
    for word, neutral in {"temperature": 1.0, "class_weight": None}.items():
        _check_power(found, early, word, neutral)
    varying = [step for step in early if _varies(found, step)]
    kinds = {_kind(one) for one in made}
    if len(kinds) > 1:
        raise ValueError(
            "param_grid must keep the kind of model: ELBOs of models of different "
            f"data (labels, targets or rows) are not comparable; got {sorted(kinds)}. "
            "Search each kind on its own."
        )
    if varying and not kinds <= {"classifier", "regressor"}:
        raise ValueError(
            "param_grid must not vary the preprocessing of a model of X: a bound on "
            "the density of other data, or of the same data in other units, is not "
            f"comparable; got several settings of {varying}. Transform X before the "
            "search, or compare by held-out scores."
        )
    _warn_used_twice(found, varying)


def _kind(estimator):
    """What an estimator is to scikit-learn: classifier, regressor or else."""
    kind = get_tags(estimator).estimator_type
    return kind if kind in {"classifier", "regressor"} else "model of X"


def _check_seeds(candidates):
    names = sorted({name for params in candidates for name in _seed_names(params)})
    if names:
        raise ValueError(
            "param_grid must not hold seeds: repeats are what seeds are for; got "
            f"{names}. Use n_repeats, and random_state of the search."
        )


def _check_power(found, early, word, neutral):
    """Refuse different powers of the likelihood."""
    names = {
        name
        for params in found
        for name in params
        if _word(name) == word and not _belongs(name, early)
    }
    for name in sorted(names):
        values = _distinct([params.get(name, neutral) for params in found])
        if len(values) > 1:
            raise ValueError(
                f"param_grid must not vary {name}: it raises the likelihood to a "
                "power, and ELBOs of different powers are not comparable. Where log "
                "likelihoods are negative the smallest always wins, however badly it "
                f"fits; got {values}. Choose it by held-out log density: GridSearchCV "
                "with the score of a density model, scoring='neg_log_loss' for a "
                "classifier."
            )


def _warn_used_twice(found, varying):
    """Warn where steps that look at `y` differ between candidates."""
    for step in varying:
        values = [params.get(step) for params in found]
        # Some need y; what selects features may use it.
        if any(
            hasattr(one, "get_support") or get_tags(one).target_tags.required
            for one in values
            if _has_params(one)
        ):
            warnings.warn(
                f"The step {step!r} may look at y and differs between candidates. "
                "Labels that choose the features and are modelled as well count twice: "
                "the ELBO is too high, most where most is chosen from. Compare by "
                "held-out scores.",
                stacklevel=5,
            )


def _varies(found, step):
    """Whether a step, or a parameter inside it, has several values."""
    names = {n for params in found for n in params if _belongs(n, [step])}
    absent = object()
    return any(len(_distinct([p.get(n, absent) for p in found])) > 1 for n in names)


def _distinct(values):
    """The different ones among the values, in order."""
    kept = []
    for value in values:
        if not any(_same(value, other) for other in kept):
            kept.append(value)
    return kept


def _same(a, b):
    """Equality of two parameters, of estimators in kind only."""
    if _has_params(a) and _has_params(b):
        return type(a) is type(b)
    return a is b or np.array_equal(a, b)


def _seed_names(params):
    return sorted(name for name in params if _word(name) == "random_state")


def _word(name):
    return name.rpartition("__")[2]


def _belongs(name, steps):
    return any(name == step or name.startswith(f"{step}__") for step in steps)
