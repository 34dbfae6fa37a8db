"""Answers do not depend on units, origins and order of columns, nor on labels."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from skboost import RowBlocks
from skboost._random import generator, quasi_normal

from ..kinds import FLAT, GROUPED, over

Linear, Logistic, Ordinal, Poisson = FLAT
GroupedLinear, GroupedLogistic, GroupedOrdinal, GroupedPoisson = GROUPED

FAR = 2_459_000.0
RNG = np.random.default_rng(0)
TIME, OTHER = RNG.uniform(size=80), RNG.standard_normal(80)
GROUP = RNG.integers(0, 6, 80)
ETA = 3.5 * (TIME - 0.5) + 0.5 * OTHER
NUMBERS = ETA + 0.5 * RNG.standard_normal(80)
COUNTS = RNG.poisson(np.exp(0.5 * ETA + 1.0))
CLASSES = (RNG.logistic(size=80) < ETA).astype(int)
RANKS = np.digitize(ETA + RNG.logistic(size=80), [-1.0, 1.0])
SETTINGS = {"random_state": 0, "max_iter": 2}
CASES = {
    "two classes": (Logistic, CLASSES, {}),
    "a Laplace prior": (
        Logistic, CLASSES, {"prior": "laplace"},
    ),
    "a low-rank family": (
        Logistic, CLASSES,
        {"prior_scale": 2.0, "family": "gaussian-low-rank"},
    ),
    "several classes": (Logistic, RANKS, {}),
    "ordered classes": (
        Ordinal, RANKS, {"prior_scale": "auto"},
    ),
    "normal noise": (Linear, NUMBERS, {}),
    "Student-t noise": (
        Linear, NUMBERS,
        {"noise": "student_t", "prior_scale": "auto"},
    ),
    "counts": (Poisson, COUNTS, {}),
    "negative binomial counts": (
        Poisson, COUNTS,
        {"likelihood": "negative_binomial", "prior_scale": "auto"},
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def no_raw_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def rows(origin, *more):
    return np.column_stack([origin + TIME, OTHER, *more])


# These take longest, and have their centre as others do.
SLOW = (
    "ordered classes", "several classes", "classes", "counts under a Laplace prior",
    "negative binomial counts", "a low-rank family", "a Laplace prior",
)  # fmt: skip


@over("name", CASES, slow=SLOW)
def test_origins_and_units_of_columns(name):
    kind, y, settings = CASES[name]
    # Low ranks have no room for correlations with the intercept of a column far off.
    origin = 300.0 if name == "a low-rank family" else FAR
    # The scale of a prior that is a number is in the units of the columns.
    known = settings.get("prior_scale", "auto") != "auto"
    units = np.ones(2) if known else np.array([1e4, 1e-3])
    near = kind(**SETTINGS, **settings).fit(rows(0.0), y)
    far = kind(**SETTINGS, **settings).fit(rows(origin) * units, y)
    assert far.coef_ * units == pytest.approx(near.coef_, rel=0.01, abs=0.003)
    found, width = (np.ptp(one.coef_interval(), axis=-1).ravel() for one in (far, near))
    assert found[0] * units[0] == pytest.approx(width[0], rel=0.05)
    assert far.elbo_ == pytest.approx(near.elbo_, abs=0.1)
    ask = "predict_proba" if hasattr(near, "classes_") else "predict"
    answers = getattr(far, ask)(rows(origin) * units), getattr(near, ask)(rows(0.0))
    np.testing.assert_allclose(*answers, atol=2e-3, rtol=2e-3)


GROUPED = {
    "normal noise": (GroupedLinear, NUMBERS, {}),
    "a Laplace prior": (
        GroupedLinear, NUMBERS, {"prior": "laplace"},
    ),
    "counts under a Laplace prior": (
        GroupedPoisson, COUNTS, {"prior": "laplace"},
    ),
    "classes": (GroupedLogistic, CLASSES, {}),
    "counts": (GroupedPoisson, COUNTS, {}),
    "ordered classes": (GroupedOrdinal, RANKS, {}),
}  # fmt: skip


@over("name", GROUPED, slow=SLOW)
def test_origins_of_a_column_beside_groups(name):
    kind, y, settings = GROUPED[name]
    given = settings | {"groups": [2], "random_state": 0}
    tables = rows(0.0, GROUP), rows(FAR, GROUP)
    near, far = (kind(**given).fit(X, y) for X in tables)
    assert far.coef_ == pytest.approx(near.coef_, rel=0.01, abs=0.002)
    found, width = (np.ptp(one.coef_interval(), axis=-1).ravel() for one in (far, near))
    assert found[0] == pytest.approx(width[0], rel=0.05)
    answers = [one.predict(X) for one, X in zip((near, far), tables, strict=True)]
    # Two averages of 1,024 draws of deviation .25 differ by .011 on average.
    assert np.mean(np.isclose(*answers, rtol=0.01, atol=0.035)) > 0.98
    # Where its columns are zero is far from all rows, for intercepts as for rates.
    shift = far.intercept_ + FAR * far.coef_[0]
    assert shift == pytest.approx(near.intercept_, abs=0.05)


@pytest.mark.parametrize(
    ("groups", "settings"),
    [
        (None, {}),
        (None, {"prior": "laplace"}),
        ([2], {}),
        pytest.param([2], {"prior": "laplace"}, marks=pytest.mark.slow),
    ],
)
def test_origins_of_the_response(groups, settings):
    X, found = rows(0.0, GROUP), []
    kind, given = Linear, settings | SETTINGS
    if groups:
        kind, given = GroupedLinear, given | {"groups": groups}
    for origin in (0.0, 1.6e9):
        model = kind(**given).fit(X, NUMBERS + origin)
        noise = model.posterior_.mean()[-1]
        width = np.ptp(model.predict_interval(X), axis=1)
        found.append(np.concatenate([model.coef_[:2], [noise], width]))
    # Intervals beside groups are of draws.
    assert found[1] == pytest.approx(found[0], rel=0.05, abs=0.01)


def test_pieces_blocks_and_sparse_rows_have_the_same_centre():
    X, y = rows(2020.0), CLASSES
    plain = SETTINGS | {"orbit": None}
    whole = Logistic(**plain).fit(X, y)
    halves = [(X[:30], y[:30]), (X[30:], y[30:])]
    alike = sparse.csr_matrix(X), RowBlocks(lambda: iter(halves))
    for given in alike:
        other = Logistic(**plain)
        other.fit(given, None if given is alike[1] else y)
        assert other.coef_ == pytest.approx(whole.coef_, rel=1e-4)
    near, far = (Logistic(**plain) for _ in range(2))
    for some in np.array_split(np.arange(80), 2):
        near.partial_fit(rows(0.0)[some], y[some])
        far.partial_fit(X[some], y[some])
    assert far.coef_ == pytest.approx(near.coef_, rel=0.02)
    log_joint = whole.make_log_joint(X, y)
    evidence = whole.posterior_.evidence(log_joint, random_state=0)
    assert evidence.elbo == pytest.approx(whole.elbo_, abs=0.05)


# --- order


@pytest.mark.parametrize(
    ("kind", "cuts"),
    [
        (GroupedLogistic, [0.0]),
        pytest.param(GroupedOrdinal, [-1.0, 0.5], marks=pytest.mark.slow),
    ],
)
def test_columns_and_labels_of_groups_may_change_places(kind, cuts):
    rng = np.random.default_rng(0)
    groups, X = rng.integers(8, size=80), rng.standard_normal((80, 3))
    eta = X @ [1.0, -0.5, 0.3] + rng.standard_normal(8)[groups]
    y = np.digitize(eta + rng.logistic(size=80), cuts)

    def answer(X, groups):
        table = np.column_stack([X, groups])
        return kind(groups=[3], random_state=0).fit(table, y).predict_proba(table)

    said = answer(X, groups)
    turned, renamed = answer(X[:, ::-1], groups), answer(X, 7 - groups)
    # Resampled draws differ: by .012 and .004 at most where they are random.
    assert np.abs(said - renamed).max() < 2e-3
    assert np.abs(said - turned).max() < 4e-3
    assert np.abs(said - turned).mean() < 1e-3


def test_quasi_random_draws_are_standard_normal():
    one, two = quasi_normal([(2, 512, 3), (1, 512, 4)], generator(0))
    assert one.shape == (2, 512, 3) and two.shape == (1, 512, 4)
    flat = np.column_stack([*np.moveaxis(one, 1, 0).reshape(1, 512, 6), two[0]])
    assert np.abs(flat.mean(axis=0)).max() < 0.005
    assert np.abs(np.cov(flat.T) - np.eye(10)).max() < 0.05
    wide = quasi_normal([(1, 8, 2000)], generator(0))[0]
    assert wide.shape == (1, 8, 2000) and np.isfinite(wide).all()
