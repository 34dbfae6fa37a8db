"""No message names a method or a parameter that the estimator lacks."""

import inspect
import re
import warnings
from functools import cache

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from .cases import KINDS, ONLINE, SVI

# One of every class.
CASES = {k: v for k, v in (KINDS | ONLINE | SVI).items() if k != "online, three"}
# Words of scikit-learn's own messages, too.
OTHERS = {"fit", "transform", "sample_weight", "sample", "dtype"}


def names_of(estimator):
    """Methods, parameters and keywords of an estimator."""
    found = {*estimator.get_params(deep=False)}
    for name, method in inspect.getmembers(type(estimator), callable):
        if not name.startswith("_"):
            found |= {name, *inspect.signature(method).parameters}
    return found


@cache
def every_name():
    """Of all estimators; words that are plain English count with brackets alone."""
    return set().union(*(names_of(case.estimator) for case in CASES.values())) - OTHERS


def named(message):
    """Names of methods and parameters in a message."""
    called = set(re.findall(r"\b([a-z]\w+)(?:\(|=)", message))
    plain = {word for word in re.findall(r"\w+", message) if "_" in word}
    return (called | plain) & every_name()


def wrong_rows(case):
    """Arguments of ``fit`` that are refused or warned of for many reasons."""
    data, X = case.data(), case.X
    yield from ({**data, "X": other} for other in (
        X.astype(str), X[:0], X[:1], X[:, :0], X.astype(complex), X[0], X * np.nan,
        X * 1e200, X * 0.0, sparse.csr_array(X), None,
        np.where(np.arange(X.shape[1]) == 0, np.inf, X),
    ))  # fmt: skip
    n = len(X)
    if case.y is not None:
        some = np.arange(n) % 3
        labels = case.y.astype(object)
        labels[0] = None
        yield from ({**data, "y": y} for y in (
            None, case.y[:3], np.zeros(n), np.full(n, np.nan), some - 5.5, labels,
            np.column_stack([some, some]), ["a"] * n,
        ))  # fmt: skip
    for keyword in ("sample_weight", "offset", "exposure", "trials"):
        for value in (-np.ones(n), np.ones(3), np.full(n, np.nan)):
            yield {**data, keyword: value}


def calls(case):
    """Calls whose errors and warnings are read."""
    for data in wrong_rows(case):
        yield lambda data=data: case.new().fit(**data)
        if hasattr(case.estimator, "partial_fit"):
            yield lambda data=data: case.new().partial_fit(**data)
    for name in case.estimator.get_params(deep=False):
        for value in (object(), -1, "nonsense", [], {}):
            yield lambda name=name, value=value: case.new(**{name: value}).fit(
                **case.data()
            )
    model = case.fit()
    X, more = (
        case.X[:4],
        [n for n in dir(model) if not n.startswith(("_", "set", "fit"))],
    )
    for name in more:
        for args in ((), (X[:, :1],), (X, [1.5] * 4), (X, ["?"] * 4), (-1,)):
            yield lambda name=name, args=args: getattr(clone(model), name)(*args)
            if name != "partial_fit":
                yield lambda name=name, args=args: getattr(model, name)(*args)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_messages_name_what_the_estimator_has(name):
    case, messages = CASES[name], set()
    for call in calls(case):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                call()
            except Exception as error:
                messages.add(str(error))
        messages.update(str(one.message) for one in caught)
    assert len(messages) > 20
    own = names_of(case.estimator) | {"groups"}
    wrong = {text: named(text) - own for text in messages if named(text) - own}
    assert not wrong
