"""A target and its points, as error messages name them."""

from skboost.transforms import Real


def what_came(target):
    """What a density does where it is nowhere positive, and the first failure."""
    failure = target.first_failure
    if failure is None:
        return "is -inf (a density of zero)", ""
    return "fails or is -inf", f" First: {failure}"


def coordinate_label(target, i):
    """A coordinate by the number that the user knows it by."""
    if not hasattr(target, "constraints"):
        return f"theta[{i}]"
    part = next(part for part in target.constraints.parts if i in part.free)
    shown = f"theta[{part.columns[list(part.free).index(i)]}]"
    free = isinstance(part.transform, Real)
    return shown if free else f"{shown} on its unconstrained scale"


def shown_point(target, starts):
    """The first start, on the user's scale where that is another."""
    first = starts[0]
    if hasattr(target, "constraints"):
        first = target.constraints.forward(starts[:1])[0]
    return first if len(starts) == 1 else f"{first} and others"
