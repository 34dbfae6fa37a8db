"""Parameters: constructors keep them, and a wrong name says which one was meant. A
library that is missing says how to get it.
"""

from difflib import get_close_matches
from functools import cache, wraps
from importlib import import_module
from inspect import Parameter, signature

# To read one takes a twentieth of a small fit.
_signature = cache(signature)


class ParameterNames:
    """Mixin of estimators and priors: names of parameters are read once for a class.

    A fit asks several times, and scikit-learn reads the signature every time.
    """

    @classmethod
    @cache
    def _get_param_names(cls):
        return super()._get_param_names()


def keeps_parameters(init):
    """Decorator of a constructor that keeps every argument under its own name.

    That is all that scikit-learn has constructors do; written out, each name would
    stand twice more in each of them. Signatures stay, and so do errors of Python.
    """
    own = [*signature(init).parameters.values()][1:]
    defaults = {one.name: one.default for one in own}

    @wraps(init)
    def keeping(self, *args, **kwargs):
        init(self, *args, **kwargs)
        vars(self).update(defaults | dict(zip(defaults, args, strict=False)) | kwargs)

    return keeping


def refuse_unknown(name, function, advice, given):
    """Refuse arguments (names) that a function does not have, as Python does.

    The message names the parameter that was probably meant; `advice` says of some
    names, such as those of other libraries, what to use in their place.
    """
    known = _signature(function).parameters
    if any(one.kind is Parameter.VAR_KEYWORD for one in known.values()):
        return
    for argument in given:
        if argument not in known:
            near = get_close_matches(argument, known, n=1)
            told = f"Did you mean {near[0]!r}?" if near else ""
            told = advice.get(argument, told)
            raise TypeError(f"{name}() has no parameter {argument!r}. {told}".strip())


def known_parameters(function):
    """Decorator of a function that says which parameter was meant."""

    @wraps(function)
    def checked(*args, **kwargs):
        refuse_unknown(function.__name__, function, {}, kwargs)
        return function(*args, **kwargs)

    return checked


def imported(name, needed_by):
    """A module of a library that only some calls need, imported when it is used."""
    try:
        return import_module(name)
    except ImportError as error:
        library = name.partition(".")[0]
        raise ImportError(
            f"{needed_by} needs {library}, which is not installed. Install it with "
            f"`pip install {library}`."
        ) from error
