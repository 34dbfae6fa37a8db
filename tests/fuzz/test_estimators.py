"""Any parameters and any data: an answer or a ValueError, never a NaN.

300 cases run in CI, the same ones every time. FUZZ_CASES=100000 in the environment
runs so many others.
"""

import os
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from sklearn.base import is_classifier, is_regressor

from .fuzz_cases import data, estimators, parameters

ESTIMATORS = estimators()
ASKED = os.environ.get("FUZZ_CASES")
# Where NaN is the documented answer: what a first iteration does not have, what an
# objective does not define, runs that a limit of time left no room for, and a k-hat
# of too few draws.
NOT_DEFINED = {
    "duality_gap_", "duality_gap_se_", "duality_gap_path_", "elbo_by_init_",
    "gain_path_", "history_", "pareto_k_", "remaining_kl_se_",
}  # fmt: skip


def kind_of(cls):
    """Of the data that an estimator takes."""
    for part, kind in (
        ("Poisson", "counts"),
        ("MatrixFactorization", "factors"),
        ("Dirichlet", "topics"),
        ("Mixture", "mixture"),
    ):
        if part in cls.__name__:
            return kind
    return "classifier" if is_classifier(cls()) else "regressor"


def has_nan(value):
    """Whether there is a NaN in a fitted attribute."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return bool(np.isnan(value).any())
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    if isinstance(value, list | tuple):
        return any(has_nan(part) for part in value)
    return False


def public_attributes(model):
    """Fitted attributes, those included that are properties."""
    names = {n for n in [*vars(model), *dir(type(model))] if n[-1] == "_" != n[0]}
    for name in sorted(names - NOT_DEFINED):
        if name.endswith("__"):
            continue
        try:
            yield name, getattr(model, name)
        except AttributeError:
            continue


def answers(model, X, kind):
    """What a fitted model says of its own rows."""
    if kind == "topics":
        yield "transform", model.transform(X)
    elif kind == "factors":
        yield "predict_entries", model.predict_entries([0], [0])
    elif kind == "classifier":
        yield "predict_proba", model.predict_proba(X)
    elif kind == "mixture":
        yield "predict_proba", model.predict_proba(X)
        yield "score_samples", model.score_samples(X)
    else:
        assert is_regressor(model)
        yield "predict", model.predict(X)


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
@settings(
    max_examples=int(ASKED or 300) // len(ESTIMATORS),
    derandomize=ASKED is None,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(drawn=st.data())
def test_an_answer_or_a_value_error(name, drawn):
    cls = ESTIMATORS[name]
    kind = kind_of(cls)
    X, y, weight = drawn.draw(data(kind))
    params = drawn.draw(parameters(cls, X.shape[1]))
    more = {} if weight is None else {"sample_weight": weight}
    note(f"{name}(**{params})")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = cls(**params).fit(X, y, **more)
        except ValueError as error:
            assert str(error)
            return
        for attribute, value in public_attributes(model):
            assert not has_nan(value), attribute
        for answer, value in answers(model, X, kind):
            assert not has_nan(value), answer
