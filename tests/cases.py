"""A small model of every kind that has iterations, with data that it fits at once."""

from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

from skboost import (
    BoostedGaussianMixture,
    BoostedMatrixFactorization,
    SVIGaussianMixture,
    SVILatentDirichletAllocation,
    SVIMatrixFactorization,
)
from skboost.strategies import GreedySearch

from .kinds import FLAT, GROUPED, OnlineLinear, OnlineLogistic

Linear, Logistic, Ordinal, Poisson = FLAT
GroupedLinear, GroupedLogistic, GroupedOrdinal, GroupedPoisson = GROUPED

# Steps of a given size go on to the last iteration and cost little, and diagonal
# components of correlated coefficients leave something to gain.
STEPS = {"step_size": 0.3, "corrective": "none"}
FEW = {"max_iter": 2, "tol": 0.0, "random_state": 0}
GLM = {
    "family": "gaussian-diag",
    "search": GreedySearch(32, refine=False),
    **STEPS,
    **FEW,
}


@dataclass(frozen=True)
class Case:
    """An estimator, its rows and responses, and what it is told beside them."""

    estimator: BaseEstimator
    X: np.ndarray
    y: np.ndarray | None = None
    offset: dict = field(default_factory=dict)

    def new(self, **settings):
        if "max_iter" not in self.estimator.get_params():  # a stream
            settings.pop("max_iter", None)
        return clone(self.estimator).set_params(**settings)

    def data(self, rows=slice(None)):
        """Arguments of ``fit``."""
        offset = {name: value[rows] for name, value in self.offset.items()}
        response = {} if self.y is None else {"y": self.y[rows]}
        return {"X": self.X[rows], **response, **offset}

    def fit(self, **settings):
        return self.new(**settings).fit(**self.data())

    def answer(self, model, X=None):
        """What a fitted model says: probabilities, means, densities or shares."""
        X = self.X if X is None else X
        if hasattr(model, "predict_entries"):
            return model.reconstruct()
        if hasattr(model, "transform"):
            return model.transform(X)
        if hasattr(model, "score_samples"):
            return model.score_samples(X)
        if hasattr(model, "predict_proba"):
            return model.predict_proba(X)
        offset = {name: value[: X.shape[0]] for name, value in self.offset.items()}
        return model.predict(X, **offset)

    def stages(self, model):
        """What it said after every iteration."""
        if hasattr(model, "predict_entries"):
            rows, columns = np.indices(self.X.shape).reshape(2, -1)
            found = model.staged_predict_entries(rows, columns)
            return [entries.reshape(self.X.shape) for entries in found]
        if hasattr(model, "score_samples"):
            return list(model.staged_score_samples(self.X))
        if hasattr(model, "predict_proba"):
            return list(model.staged_predict_proba(self.X))
        return list(model.staged_predict(self.X, **self.offset))


def _linear():
    """Rows with a sparse pattern, and responses of every kind."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((48, 3))
    X = (X + 2.0 * X[:, :1]) * (rng.random((48, 3)) < 0.8)
    eta = X @ [0.6, -0.4, 0.0] + 0.3
    latent = eta + rng.logistic(size=48)
    return X, {
        "labels": np.where(latent > 0.0, "yes", "no"),
        "classes": np.digitize(latent, [-0.7, 0.9]),
        "real": eta + 0.5 * rng.standard_normal(48),
        "counts": rng.poisson(np.exp(0.5 * eta)),
        "offset": 0.3 * rng.standard_normal(48),
    }


X, _Y = _linear()
GROUPS = np.arange(48) % 6
GROUPED = np.column_stack([X[:, :2], GROUPS])
_EFFECTS = np.random.default_rng(1).standard_normal(6)[GROUPS]
OFFSET, EXPOSURE = {"offset": _Y["offset"]}, {"exposure": np.exp(_Y["offset"])}
PLAIN = {"prior_scale": 1.0, "orbit": None}
NEGATIVE = {"likelihood": "negative_binomial"}
ONE = FEW | {"max_iter": 1, "groups": [2]}
TABLE = np.random.default_rng(2).standard_normal((10, 2)) @ [[1, 2, 0, 1], [0, 1, 1, 2]]

FLAT = {
    # A third of the time of fits that learn the scale of their prior.
    "two classes": Case(
        Logistic(prior_scale=1.0, **GLM), X, _Y["labels"]
    ),
    "three classes": Case(
        Logistic(**PLAIN, **GLM), X, _Y["classes"]
    ),
    "normal": Case(
        Linear(prior_scale=1.0, **GLM), X, _Y["real"]
    ),
    "student_t": Case(
        Linear(noise="student_t", prior_scale=1.0, **GLM),
        X,
        _Y["real"],
    ),
    "poisson": Case(
        Poisson(**PLAIN, **GLM), X, _Y["counts"], OFFSET
    ),
    "negative binomial": Case(
        Poisson(**PLAIN, **NEGATIVE, **GLM),
        X, _Y["counts"], EXPOSURE,
    ),
}  # fmt: skip
HIERARCHICAL = {
    "groups, normal": Case(
        GroupedLinear(**ONE), GROUPED, _Y["real"] + _EFFECTS
    ),
    "groups, ordered": Case(
        GroupedOrdinal(**ONE), GROUPED, _Y["classes"]
    ),
    "groups, classes": Case(
        GroupedLogistic(**ONE), GROUPED, _Y["labels"]
    ),
    "groups, poisson": Case(
        GroupedPoisson(**ONE), GROUPED, _Y["counts"], OFFSET
    ),
    "groups, negative binomial": Case(
        GroupedPoisson(**NEGATIVE, **ONE),
        GROUPED, _Y["counts"], EXPOSURE,
    ),
}  # fmt: skip
ONLINE = {
    "online, classes": Case(OnlineLogistic(), X, _Y["labels"]),
    "online, three": Case(OnlineLogistic(), X, _Y["classes"]),
    "online, normal": Case(OnlineLinear(), X, _Y["real"]),
}
LINEAR = FLAT | HIERARCHICAL | ONLINE
OTHERS = {
    "ordered classes": Case(Ordinal(**PLAIN, **GLM), X, _Y["classes"]),
    "mixture": Case(
        BoostedGaussianMixture(2, covariance_type="diag", **STEPS, **FEW),
        X[:, :2] + 3.0 * (np.arange(48) % 2)[:, None],
    ),
    "factorisation": Case(
        BoostedMatrixFactorization(1, n_draws=16, n_restarts=1, **STEPS, **FEW), TABLE
    ),
}
EVERY = FLAT | HIERARCHICAL | OTHERS

# By natural gradients.
_RUNS = {"max_iter": 4, "tol": 0.0, "random_state": 0}
_RNG = np.random.default_rng(0)
_LEFT = _RNG.standard_normal((40, 2))
_GAPS = _RNG.random((40, 8)) < 0.3
SVI = {
    "svi, mixture": Case(
        SVIGaussianMixture(3, init_params="random", **_RUNS),
        _LEFT + 4.0 * (np.arange(40) % 2)[:, None],
    ),
    "svi, factors": Case(
        SVIMatrixFactorization(2, **_RUNS),
        np.where(_GAPS, np.nan, _LEFT @ _RNG.standard_normal((2, 8))),
    ),
    "svi, topics": Case(
        SVILatentDirichletAllocation(3, init_params="random", **_RUNS),
        _RNG.poisson(2.0, (40, 8)),
    ),
}
# One of every class; the other likelihoods go the same way through a fit.
KINDS = {
    name: case
    for name, case in EVERY.items()
    if name not in ("three classes", "student_t") and "binomial" not in name
}


@cache
def _fitted(name, **settings):
    return (EVERY | ONLINE)[name].fit(**settings)


def fitted(name, **settings):
    """Fitted once for all tests, none of which changes it."""
    known = (EVERY | ONLINE)[name].estimator.get_params(deep=False)
    return _fitted(name, **{k: v for k, v in settings.items() if known.get(k, v) != v})


def each(cases, *needed, slow=()):
    """Over the cases whose estimators have all these parameters and methods."""
    names = [
        pytest.param(name, marks=pytest.mark.slow) if name in slow else name
        for name, case in cases.items()
        if {*needed} <= {*dir(case.estimator), *case.estimator.get_params()}
    ]
    return pytest.mark.parametrize("name", names)


# Under numpy 2.0 the place of an array in memory decides how its sums are rounded: two
# fits in one process differ by 1e-12 of a gain. Later versions give every bit again.
_SUMS_DEPEND_ON_MEMORY = np.lib.NumpyVersion(np.__version__) < "2.1.0"


def _same(one, two):
    """Whether numbers are the same, bit for bit where numpy can do it."""
    if _SUMS_DEPEND_ON_MEMORY:
        np.testing.assert_allclose(one, two, rtol=1e-9)
    else:
        np.testing.assert_array_equal(one, two)


def same_fit(case, one, two):
    """Whether two fits are the same, bit for bit; the last report included."""
    __tracebackhide__ = True
    assert one.n_iter_ == two.n_iter_ and one.message_ == two.message_
    names = ["elbo_", "elbo_path_"]
    if hasattr(one, "posterior_"):
        names += ["gain_path_", "duality_gap_path_", "elbo_se_", "remaining_kl_"]
        names += ["pareto_k_"]
        _same(one.posterior_.weights, two.posterior_.weights)
    for name in names:
        _same(getattr(one, name), getattr(two, name))
    _same(case.answer(one), case.answer(two))
