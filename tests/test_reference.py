"""The reference lists what there is: attributes of every fit, and all parameters."""

import importlib
import inspect
import re

import numpy as np
import pytest

import skboost
from skboost import (
    EvidenceSearch,
    OnlineBayesianLinearRegression,
    OnlineBayesianLogisticRegression,
    SVIGaussianMixture,
    SVILatentDirichletAllocation,
    SVIMatrixFactorization,
)
from skboost.decomposition import RatingRegressor

from .cases import EVERY, KINDS, TABLE, Case, X, fitted
from .test_package import PUBLIC_MODULES

SHORT = {"max_iter": 2, "random_state": 0}
LABELS = (X[:, 0] > 0.0).astype(int)
CASES = KINDS | {
    "online, real": Case(OnlineBayesianLinearRegression(), X, X[:, 0]),
    "online, classes": Case(OnlineBayesianLogisticRegression(), X, LABELS),
    "svi, mixture": Case(SVIGaussianMixture(2, **SHORT), X),
    "svi, factors": Case(SVIMatrixFactorization(1, **SHORT), TABLE),
    "topics": Case(SVILatentDirichletAllocation(2, **SHORT), np.abs(X)),
    "ratings": Case(RatingRegressor(), np.indices((3, 4)).reshape(2, -1).T, range(12)),
    "search": Case(EvidenceSearch(EVERY["two classes"].estimator, {}), X, LABELS),
}
# Only of data frames, or by some of the parameters.
SOMETIMES = {"feature_names_in_", "dispersion_", "prior_scale_"}


def listed(thing, title):
    """Names in a section of a docstring."""
    text = inspect.getdoc(thing) or ""
    found = re.search(rf"^{title}\n-+\n((?:.+\n|\n(?!.*\n---))*)", text + "\n", re.M)
    heads = re.findall(r"^\**(\w.*?)(?: : .*)?$", found[1], re.M) if found else []
    return {name.strip("*") for head in heads for name in re.split(r",\s*\\?\s*", head)}


@pytest.mark.parametrize("name", CASES)
def test_attributes_of_a_fit_are_listed(name):
    model = fitted(name) if name in EVERY else CASES[name].fit()
    own = {n for n in dir(model) if n[-1] == "_" != n[0] and hasattr(model, n)}
    known = listed(type(model), "Attributes")
    # A grid search has those of scikit-learn's as well.
    parents = [kind for kind in type(model).__mro__ if "sklearn" in kind.__module__]
    assert own <= known.union(*(listed(kind, "Attributes") for kind in parents))
    assert known - own <= SOMETIMES


def public():
    """Public classes, functions and methods of the package, by their names."""
    for name in PUBLIC_MODULES:
        module = importlib.import_module(name)
        for key in module.__all__:
            thing = getattr(module, key)
            members = inspect.getmembers(thing) if inspect.isclass(thing) else []
            for method, member in [("", thing), *members]:
                home = getattr(member, "__module__", None) or ""
                if home.startswith(skboost.__name__) and method[:1] != "_":
                    yield f"{key}.{method}", member


def test_parameters_are_listed():
    known = {
        name: (listed(thing, "Parameters"), {*inspect.signature(thing).parameters})
        for name, thing in public()
        if callable(thing) and listed(thing, "Parameters")
    }
    assert len(known) > 100
    assert not {n: a ^ b for n, (a, b) in known.items() if a ^ b - {"self"}}


def test_what_is_described_elsewhere_is_described_there():
    """Parameters and attributes "as in" another class, function or method."""
    things = {name.rstrip("."): thing for name, thing in public()}
    pointing = re.compile(r"^(\w.*)\n +As (?:in|of) `(?:skboost\.)?([\w.]+)`", re.M)
    n_entries = 0
    for name, thing in things.items():
        # Lazy predictions are those of the class for rows in memory.
        entries = (
            [] if name[:4] == "Dask" else pointing.findall(inspect.getdoc(thing) or "")
        )
        for head, there in entries:
            own = f"{name.partition('.')[0]}.{there}"
            target = things.get(there, things.get(own))
            known = listed(target, "Parameters") | listed(target, "Attributes")
            names = {one.strip("* ") for one in head.partition(" : ")[0].split(",")}
            n_entries += len(names)
            # What displays call an estimator is a model of `compare`.
            assert names <= known | {"estimator"}, f"{name}: {there}"
    assert n_entries > 300
