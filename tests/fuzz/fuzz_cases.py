"""Parameters and data for the fuzz, drawn by hypothesis."""

from numbers import Integral, Real

import numpy as np
from hypothesis import strategies as st
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions

import skboost
from skboost import families, priors, strategies

# What a case may cost: small sizes leave the paths through the code as they are.
CAPS = {
    "max_iter": 3,
    "n_draws": 24,
    "n_init": 2,
    "n_passes": 2,
    "n_components": 4,
    "batch_size": 16,
    "rank": 3,
    "max_doc_update_iter": 5,
    "evaluate_every": 3,
}
ALWAYS = {"max_time": 5.0, "verbose": 0, "n_jobs": None}
JUNK = [None, -1, 0, 0.0, "nonsense", float("nan"), float("inf"), [], (), {}, b"x"]
OBJECTS = {
    families.VariationalFamily: [
        families.Gaussian("diag"), families.Gaussian("low_rank", rank=1),
        families.Gaussian("full"), families.Laplace(), families.StudentT("diag"),
        families.StudentT(df="auto"), families.Gaussian("nonsense"),
        families.StudentT(df=-1.0),
    ],
    strategies.Objective: [
        strategies.JointGain(), strategies.ResidualGain(early_stopping=False),
        strategies.ResidualGain(), strategies.RootGain(),
    ],
    strategies.StepSize: [
        strategies.Predefined(), strategies.LineSearch(), strategies.Constant(0.3),
        strategies.AdaptiveBacktracking(),
        strategies.AdaptiveBacktracking(decrease=2.0),
    ],
    strategies.GreedySearch: [
        strategies.GreedySearch(24), strategies.GreedySearch(8, max_components=3),
        strategies.GreedySearch(8, refine=False, stopping="gap"),
        strategies.StochasticSearch(20, n_draws=8), strategies.GreedySearch(1),
    ],
    strategies.LearningRate: [
        strategies.ConstantRate(0.5), strategies.RobbinsMonro(),
        strategies.PowerRate(0.5, -0.5), strategies.ConstantRate(1e12),
    ],
    priors.Prior: [
        priors.NormalPrior(), priors.LaplacePrior(0.5), priors.StudentTPrior(df=1.0),
        priors.NormalPrior(scale=-1.0), priors.HorseshoePrior(),
    ],
}  # fmt: skip
SCALES = st.sampled_from([1e-12, 1e-6, 1e-3, 1.0, 1.0, 1.0, 1e3, 1e6, 1e12])


def estimators():
    """All public estimators, by name."""
    return {
        name: getattr(skboost, name)
        for name in skboost.__all__
        if hasattr(getattr(skboost, name), "_parameter_constraints")
        and name != "EvidenceSearch"
    }


def values_of(name, constraint, default, p):
    """A strategy for the values that one constraint allows, or None."""
    if constraint is None:
        return st.none()
    if isinstance(constraint, StrOptions):
        return st.sampled_from(sorted(constraint.options))
    if isinstance(constraint, Interval):
        return _numbers(name, constraint, default)
    if isinstance(constraint, type) and constraint in OBJECTS:
        return st.sampled_from(OBJECTS[constraint])
    return {
        "boolean": st.booleans(),
        "random_state": st.integers(0, 3),
        "array-like": st.lists(SCALES, min_size=p, max_size=p),
        callable: st.sampled_from([_one, _half, _wrong]),
        dict: st.just({}),
        Integral: st.integers(0, 4),
    }.get(constraint)


def _one(step):
    return 1.0


def _half(step):
    return 0.5 * step


def _wrong(step):
    return "nonsense"


def _numbers(name, interval, default):
    low = -np.inf if interval.left is None else interval.left
    high = np.inf if interval.right is None else interval.right
    if issubclass(interval.type, Integral):
        least = int(max(low, 0)) + (interval.closed in ("right", "neither"))
        most = int(min(high, CAPS.get(name, least + 4)))
        return st.integers(least, max(least, most))
    inside = [v for v in (1e-12, 1e-3, 0.5, 1.0, 5.0, 1e3, 1e12) if v in interval]
    inside += [v for v in (low, high) if np.isfinite(v) and v in interval]
    if isinstance(default, Real) and default in interval:
        inside.append(default)
    return st.sampled_from(inside)


@st.composite
def parameters(draw, cls, p):
    """Parameters of an estimator: most as the constraints allow, few not."""
    constraints = cls._parameter_constraints
    defaults = cls().get_params(deep=False)
    found = {k: v for k, v in ALWAYS.items() if k in defaults}
    for name in CAPS.keys() & defaults.keys():
        # "auto" and None have no number of their own.
        own = defaults[name] if isinstance(defaults[name], Real) else CAPS[name]
        found[name] = min(own, CAPS[name])
    names = sorted(set(defaults) - set(ALWAYS))
    for name in draw(st.lists(st.sampled_from(names), max_size=6, unique=True)):
        if draw(st.integers(0, 14)) == 0:
            found[name] = draw(st.sampled_from(JUNK))
            continue
        allowed = constraints[name]
        allowed = [] if allowed == "no_validation" else allowed
        kinds = [values_of(name, c, defaults[name], p) for c in allowed]
        kinds = [kind for kind in kinds if kind is not None]
        if kinds:
            found[name] = draw(st.one_of(kinds))
    return found


@st.composite
def tables(draw, least=1):
    """A numeric X of any shape, scale, type and degeneracy."""
    n, p = draw(st.integers(least, 25)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    X = rng.normal(size=(n, p)) * draw(SCALES)
    if draw(st.booleans()):
        X = X * np.array([draw(SCALES) for _ in range(p)])
    X = X + draw(st.sampled_from([0.0, 0.0, 0.0, 1.0, 1e6, 1e12]))
    defects = st.sampled_from(
        ["constant", "zero", "double", "rows", "integers", "single", "far", "none"]
    )
    for defect in draw(st.lists(defects, max_size=2)):
        X = _DEFECTS[defect](X)
    return X


def _with(X, column, values):
    X = X.copy()
    X[:, column] = values
    return X


def _far(X):
    X = X.copy()
    X[0] = 1e12
    return X


_DEFECTS = {
    "constant": lambda X: _with(X, 0, X[0, 0]),
    "zero": lambda X: _with(X, -1, 0.0),
    "double": lambda X: _with(X, -1, X[:, 0]),
    "rows": lambda X: np.repeat(X[:1], len(X), axis=0),
    "integers": lambda X: np.clip(np.round(X), -1e15, 1e15).astype(int),
    "single": lambda X: X.astype(np.float32),
    "far": _far,
    "none": lambda X: X,
}


@st.composite
def data(draw, kind):
    """X and y for an estimator of that kind, and sample weights or None."""
    X = draw(tables())
    n = len(X)
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    y = None
    if kind == "classifier":
        y = rng.integers(0, draw(st.integers(1, 4)), size=n)
        if draw(st.booleans()):  # as rare as can be
            y = np.zeros(n, dtype=int)
            y[-1] = 1
        if draw(st.booleans()):
            y = np.array(["a", "b", "c", "d"])[y]
    elif kind == "regressor":
        y = rng.normal(size=n) * draw(SCALES) + draw(SCALES)
        if draw(st.integers(0, 4)) == 0:
            y = np.full(n, y[0])
    elif kind == "counts":
        y = np.floor(rng.exponential(size=n) * draw(SCALES))
    elif kind == "topics":
        X = np.floor(np.abs(X))
    elif kind == "factors":
        X = np.asarray(X, dtype=float).copy()
        X[rng.random(X.shape) < draw(st.sampled_from([0.0, 0.3, 0.9]))] = np.nan
    weight = None
    if kind not in ("topics", "factors") and draw(st.integers(0, 3)) == 0:
        weight = draw(st.sampled_from([0.0, 1e-12, 1.0, 1e12])) * rng.random(n)
    if kind not in ("factors", "mixture") and draw(st.integers(0, 5)) == 0:
        X = sparse.csr_matrix(X)
    return X, y, weight
