"""Parameters that have another place: a call with one of them says which."""

from functools import wraps

# Of every boosted model, until 0.1.0.
MOVED = {
    "component_covariance": "Use family, such as family='gaussian-diag', "
    "'gaussian-low-rank' or StudentT('diag').",
    "entropy_weight": "Use objective=ResidualGain(entropy_weight=...), from "
    "skboost.strategies.",
    "n_restarts": "Leave it out: two starts are searched for each component, and other "
    "numbers change next to nothing.",
}


def refuse_moved(name, moved, given):
    """Refuse arguments that have another place.

    Parameters
    ----------
    name : str
        Of the class or function.
    moved : dict
        What to use in place of each parameter.
    given : iterable of str
        Names of the arguments of a call.

    Raises
    ------
    TypeError
        As Python does for an argument that it does not know, with the new place.
    """
    for argument in given:
        if argument in moved:
            raise TypeError(
                f"{name}() has no parameter {argument!r}. {moved[argument]}"
            )


def moved_parameters(moved):
    """Decorator of a function whose parameters have moved; see `refuse_moved`."""

    def decorator(function):
        @wraps(function)
        def checked(*args, **kwargs):
            refuse_moved(function.__name__, moved, kwargs)
            return function(*args, **kwargs)

        return checked

    return decorator
