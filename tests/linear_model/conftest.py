"""Small data on which a default fit takes a fraction of a second."""

from importlib.util import module_from_spec, spec_from_file_location

import numpy as np
import pytest
from scipy.special import expit

from skboost.strategies import GreedySearch
from skboost.targets import Ledger

from ..kinds import Logistic, Poisson


def logistic_data(n, coef, intercept=0.3, seed=0, n_classes=2):
    """Rows of a logistic model; with more classes, labels by thresholds."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, len(coef)))
    eta = X @ np.asarray(coef) + intercept
    if n_classes == 2:
        return X, (rng.uniform(size=n) < expit(eta)).astype(int)
    cuts = np.quantile(eta, np.arange(1, n_classes) / n_classes)
    return X, np.searchsorted(cuts, eta + rng.logistic(size=n))


def counted(n=80, dispersion=0.5, seed=0, level=0.3):
    """Two columns, counts that vary more than Poisson counts, and their exposures."""
    rng = np.random.default_rng(seed)
    X, years = rng.normal(size=(n, 2)), rng.uniform(0.5, 5.0, n)
    rate = years * np.exp(X @ [0.6, -0.4] + level)
    if dispersion:
        rate = rate * rng.gamma(1.0 / dispersion, dispersion, n)
    return X, rng.poisson(rate), years


def response(kind, eta, noise=1.0):
    """What a class models, for linear predictors (n,)."""
    rng = np.random.default_rng(1)
    if "Logistic" in kind.__name__:
        return (eta + rng.logistic(size=len(eta)) > 0).astype(int)
    if "Poisson" in kind.__name__:
        return rng.poisson(np.exp(eta))
    return eta + noise * rng.normal(size=len(eta))


def written(path):
    """The module in an exported file."""
    spec = spec_from_file_location("exported", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def count_regression(likelihood, **settings):
    settings = {"max_iter": 3, "search": GreedySearch(64), "random_state": 0} | settings
    return Poisson(likelihood=likelihood, **settings)


@pytest.fixture
def evaluated(monkeypatch):
    """How many draws targets were asked for, one number for each request."""
    numbers, spend = [], Ledger.spend

    def counted(ledger, n=1):
        numbers.append(n)
        return spend(ledger, n)

    monkeypatch.setattr(Ledger, "spend", counted)
    return numbers


@pytest.fixture(scope="session")
def data():
    """Sixty rows, three features, two classes."""
    return logistic_data(60, [1.5, -1.0, 0.0])


@pytest.fixture(scope="session")
def three_classes():
    """Sixty rows, two features, three classes."""
    return logistic_data(60, [1.5, -1.0], n_classes=3)


@pytest.fixture
def model():
    """``model(**settings)``: few draws and iterations, a fixed seed."""

    def make(**settings):
        settings = {
            "max_iter": 3,
            "search": GreedySearch(64),
            "random_state": 0,
        } | settings
        return Logistic(**settings)

    return make
