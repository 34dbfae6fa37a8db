"""Parameters that were renamed or dropped: a call with one says what to use now."""

from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, signature

# Of every boosted model, until 0.1.0.
MOVED = {
    "component_covariance": "Use family, such as family='gaussian-diag', "
    "'gaussian-low-rank' or StudentT('diag').",
    "entropy_weight": "Use objective=ResidualGain(entropy_weight=...), from "
    "skboost.strategies.",
    "n_restarts": "Leave it out: two starts are searched for each component, and other "
    "numbers change next to nothing.",
    "skew": "Use orbit='auto', an order such as orbit=64, or orbit=None.",
}

# Of regressions, until 0.2.0.
_NOISE = "Use noise_prior=NoiseScalePrior(weight, scale), from skboost.priors."
_DISPERSION = "Use dispersion_prior=DispersionPrior(median, sd), from skboost.priors."
MOVED_PRIORS = {
    "noise_prior_weight": _NOISE,
    "noise_prior_scale": _NOISE,
    "dispersion_prior_median": _DISPERSION,
    "dispersion_prior_sd": _DISPERSION,
}

# Of models fitted by natural gradients, until 0.2.0.
MOVED_OF_SVI = {
    "n_init_samples": "Leave it out: fit the first rows, and go on with partial_fit.",
    "elbo_size": "Leave it out: with batches the bound is estimated from 250 "
    "documents, and score(X) evaluates that of all.",
}
# Of predictions of hierarchical regressions, until 0.2.0.
MOVED_LEVEL = {
    "level": "Use population=True for level='population', and nothing for "
    "level='group'. A level is a probability, of intervals."
}


def refuse_unknown(name, function, moved, given):
    """Refuse arguments (names) that a function does not have, as Python does.

    The message names the parameter that was probably meant, and `moved` what to use in
    place of those of other libraries and earlier versions.
    """
    known = signature(function).parameters
    if any(one.kind is Parameter.VAR_KEYWORD for one in known.values()):
        return
    for argument in given:
        if argument not in known:
            near = get_close_matches(argument, known, n=1)
            advice = f"Did you mean {near[0]!r}?" if near else ""
            advice = moved.get(argument, advice)
            raise TypeError(f"{name}() has no parameter {argument!r}. {advice}".strip())


def known_parameters(moved):
    """Decorator of a function that says which parameter was meant."""

    def decorator(function):
        @wraps(function)
        def checked(*args, **kwargs):
            refuse_unknown(function.__name__, function, moved, kwargs)
            return function(*args, **kwargs)

        return checked

    return decorator
