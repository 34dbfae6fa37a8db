"""Methods that answer about rows, the same for models with groups and without.

They ask the estimator, by ``_asked(X, offset, ...)``, for what predicts and for the
rows as it takes them, and hand on keywords of which they know nothing.
"""

from functools import wraps
from inspect import Parameter, cleandoc, signature

from skboost._parameters import known_parameters
from skboost.linear_model._methods import export, set_feature_names, to_onnx
from skboost.linear_model._row_keywords import NewRows

_OF_GROUPS = """
population : bool, default=False
    False uses the effects of the row's groups; those that `fit` has not seen have the
    population's spread. True is a new group for every row.
groups : {"all", "none"} or list of str, default="all"
    Factors whose effects count. Those of others are zero, and X needs no columns of
    them."""


class Answers(NewRows):
    """What models of every kind of response share."""

    export, to_onnx, set_feature_names = export, to_onnx, set_feature_names


def answer(method):
    """Decorator of a method whose further keywords are those of models with groups.

    Models without groups have none, and none in their signature.
    """
    declared = signature(method)
    known = [p for p in declared.parameters.values() if p.kind is not p.VAR_KEYWORD]
    method.__signature__ = declared.replace(parameters=known)
    return known_parameters(method)


def with_groups(answer):
    """The same answer of a model with groups, whose two keywords are in its signature
    and its docstring.
    """
    method = answer.__wrapped__

    @wraps(method)
    def of_groups(self, *args, **kwargs):
        return method(self, *args, **kwargs)

    kind, known = Parameter.KEYWORD_ONLY, signature(method)
    more = [Parameter("population", kind, default=False)]
    more.append(Parameter("groups", kind, default="all"))
    parameters = [*known.parameters.values(), *more]
    of_groups.__signature__ = known.replace(parameters=parameters)
    text = cleandoc(method.__doc__).replace(
        "\n\nReturns\n", _OF_GROUPS + "\n\nReturns\n"
    )
    rows = "array-like or DataFrame"
    of_groups.__doc__ = text.replace("{array-like, sparse matrix}", rows)
    return known_parameters(of_groups)
