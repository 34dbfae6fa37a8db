"""First mixtures of two classes: their weights are the scale's posterior, and stay."""

import warnings
from functools import cache

import numpy as np
import pytest
from scipy.special import log_expit
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.preprocessing import scale

from skboost._row_blocks import Table
from skboost.families import FAMILIES
from skboost.linear_model import _model
from skboost.linear_model._class_model import prior_of_classes
from skboost.linear_model._model import Layout
from skboost.priors import HalfTPrior, NormalPrior
from skboost.strategies import GreedySearch

from ..kinds import Linear, Logistic, Poisson

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 4))
Y = (X[:, 0] + RNG.logistic(size=40) > 0).astype(int)
SETTINGS = {"orbit": None, "random_state": 0}


def fitted(rows=X, y=Y, **settings):
    return Logistic(**SETTINGS | settings).fit(rows, y)


@pytest.mark.parametrize(
    "model, prior, climbs",
    [(Linear, "normal", 0), (Poisson, "normal", 0), (Poisson, "laplace", 1)],
)
def test_a_start_is_looked_for_where_a_search_asks(monkeypatch, model, prior, climbs):
    starts, find_mode = [], _model.find_mode

    def counted(*args, **settings):
        starts.append(find_mode(*args, **settings))
        return starts[-1]

    monkeypatch.setattr(_model, "find_mode", counted)
    made = model(**SETTINGS, prior=prior, prior_scale="learn", max_iter=1)
    assert np.isfinite(made.fit(X, Y).predict(X)).all() and len(starts) == climbs


def exact(rows, y, log_s, powers):
    """Probabilities of ln s, and log evidence, for two coefficients without intercept.

    Coefficients are in units of the scale, where all priors are the same.
    """
    axis = np.linspace(-6, 6, 49)
    z = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    log_prior = -0.5 * (z**2).sum(axis=1) - np.log(2 * np.pi) + 2 * np.log(0.25)
    columns = rows / np.sqrt(np.mean(rows.var(axis=0)))
    variances, axes = np.linalg.eigh(np.cov(columns.T, bias=True))
    height = np.tile(HalfTPrior(scale=1.5).value_and_score(log_s)[0], (len(powers), 1))
    for kind, power in enumerate(powers):
        lengths = (variances + 0.1 * variances.mean()) ** power
        lengths *= variances.sum() / (variances @ lengths)
        turned = columns @ (axes * np.sqrt(lengths))
        eta = np.where(y, 1, -1)[:, None] * (turned @ z.T)
        for k, s in enumerate(np.exp(log_s)):
            log_joint = log_expit(s * eta).sum(axis=0) + log_prior
            top = log_joint.max()
            height[kind, k] += np.log(np.exp(log_joint - top).sum()) + top
    height = np.logaddexp.reduce(height) - np.log(len(powers))
    mass = np.exp(height - height.max())
    evidence = np.log(mass.sum()) + height.max() + np.log(log_s[1] - log_s[0])
    return mass / mass.sum(), evidence


@pytest.mark.parametrize(
    ("prior", "separable"), [("normal", True), ("principal", False)]
)
def test_the_scale_has_its_exact_posterior_and_what_remains_is_told(separable, prior):
    rows = X[:20, :2] @ np.array([[1.0, 0.8], [0.0, 0.6]])
    y = (rows[:, 0] > 0).astype(int) if separable else Y[:20]
    model = fitted(rows, y, fit_intercept=False, prior=prior)
    log_s = np.linspace(-7, 5, 49)
    powers = [0.0] if prior == "normal" else [0.0, 0.5, 1.0]
    mass, evidence = exact(rows, y, log_s, powers)
    ends = np.exp(np.interp([0.05, 0.95], mass.cumsum() - 0.5 * mass, log_s))
    # Tails of a scale that components by lower bounds cut to less than half.
    assert model.prior_scale_interval() == pytest.approx(ends, rel=0.15)
    mean = mass @ np.exp(log_s)
    spread = np.sqrt(mass @ (np.exp(log_s) - mean) ** 2)
    assert model.prior_scale_ == pytest.approx(mean, abs=0.1 * spread)
    remaining = evidence - model.elbo_
    assert model.remaining_kl_ == pytest.approx(
        remaining, abs=0.05 + 4 * model.remaining_kl_se_
    )


CANCER, BENIGN = load_breast_cancer(return_X_y=True)
CANCER, BENIGN = scale(CANCER[:40, :5]), BENIGN[:40]


@cache
def of_cancer(**settings):
    return fitted(CANCER, BENIGN, **settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"corrective": "away", "search": GreedySearch(stopping="gap")},
        {"corrective": "pairwise"},
        {"family": "student_t"},
        {"family": "gaussian-diag"},
    ],
)
def test_boosting_goes_on_within_scales(settings):
    first = of_cancer(**settings)
    more = of_cancer(max_iter=first.n_iter_ + 2, tol=0.01, **settings)
    assert not np.array_equal(first.posterior_.mean(), more.posterior_.mean())
    assert more.elbo_ > first.elbo_ - 2 * more.elbo_se_


def test_weights_of_scales_are_held():
    first = of_cancer()
    more = of_cancer(max_iter=first.n_iter_ + 2, tol=0.0)
    assert more.n_iter_ == first.n_iter_ + 2 and more.elbo_ > first.elbo_
    assert more.remaining_kl_ < first.remaining_kl_
    # Every weight of the first mixture is a sum of weights of the last one.
    last = list(more.posterior_.weights)
    for weight in first.posterior_.weights:
        total = 0.0
        while total < weight - 1e-12:
            total += last.pop(0)
        assert total == pytest.approx(weight)
    assert not last
    few = fitted(
        CANCER, BENIGN, max_iter=11, tol=0.0, search=GreedySearch(max_components=9)
    )
    assert few.posterior_.n_components <= 9
    assert all(type(value) is float for value in few.gain_path_.tolist())


def test_boosting_ends_before_every_scale_is_tried_where_little_remains():
    nodes = of_cancer().n_iter_
    more = of_cancer(max_iter=2 * nodes, tol=1.0)
    assert "Converged" in more.message_
    assert nodes < more.n_iter_ < 2 * nodes


def test_many_correlated_columns_are_weighed_along_their_components():
    rng = np.random.default_rng(0)
    factors, noise = rng.standard_normal((240, 2)), rng.standard_normal((240, 40))
    rows = factors @ rng.standard_normal((2, 40)) + 0.5 * noise
    y = (factors[:, 0] > 0.3 * rng.logistic(size=240)).astype(int)
    models = [fitted(rows[:40], y[:40], prior=p) for p in ("normal", "auto")]
    losses = [log_loss(y[40:], one.predict_proba(rows[40:])) for one in models]
    # By .015 nats on average.
    assert losses[0] - losses[1] > 0.005


@pytest.mark.parametrize(
    "kind", ["classes", pytest.param("numbers", marks=pytest.mark.slow)]
)
def test_few_large_coefficients_are_found_under_a_horseshoe(kind):
    rng, losses, classes = np.random.default_rng(0), [], kind == "classes"
    rows, n = (
        rng.standard_normal((360, 40) if classes else (220, 12)),
        40 - 20 * (not classes),
    )
    eta = rows[:, :2] @ [3.0, -3.0]
    noise = rng.logistic(size=360) if classes else rng.standard_normal(220)
    for prior in ("normal", "horseshoe"):
        if classes:
            y = eta > noise
            model = fitted(rows[:n], y[:n], prior=prior, max_iter=1)
            losses.append(log_loss(y[n:], model.predict_proba(rows[n:])))
        else:
            y = eta + noise
            model = Linear(prior=prior, **SETTINGS)
            mean = model.fit(rows[:n], y[:n]).predict(rows[n:])
            losses.append(np.sqrt(np.mean((mean - y[n:]) ** 2)))
    # The noise of numbers alone is 1.
    assert losses[1] < losses[0] - 0.1 and losses[1] < 1.2
    assert hasattr(model, "prior_scale_")


@pytest.mark.parametrize(
    "settings",
    [
        {"prior_scale": 1.0},
        pytest.param({"y": np.arange(40) % 21}, marks=pytest.mark.slow),
    ],
)
def test_principal_components_need_a_scale_that_is_learned_and_matters(settings):
    with pytest.raises(ValueError, match="prior='principal' needs prior_scale='learn'"):
        fitted(prior="principal", **settings)
    few = {"rows": X[:, :2], "max_iter": 1, "search": GreedySearch(32)}
    one, two = (fitted(prior=p, **few, **settings) for p in ("auto", "normal"))
    assert np.array_equal(one.coef_, two.coef_)


GAUSSIAN = ["gaussian", "gaussian-diag", "gaussian-low-rank"]
ASKED = [
    {"family": "gaussian-low-rank", "objective": "hellinger"},
    {"family": "gaussian-diag", "objective": "hellinger"},
    {"objective": "hellinger"},
    *({"family": family} for family in [*GAUSSIAN, "laplace", "student_t"]),
    *({"family": family, "objective": "relbo"} for family in FAMILIES),
    {"step_size": "adaptive", "corrective": "pairwise"},
    {"search": GreedySearch(refine=False)},
]


@pytest.mark.parametrize(
    ("shape", "n_classes", "expected"),
    [
        ((5_000, 199), 2, ("learn", "principal")),
        ((5_001, 199), 2, ("learn", "principal")),
        ((3_322, 300), 2, ("learn", "normal")),
        ((3_323, 300), 2, (1.0, "normal")),
        ((60, 299), 2, ("learn", "principal")),
        ((60, 300), 2, ("learn", "normal")),
        ((1_000, 59), 5, ("learn", "principal")),
        ((1_001, 59), 5, (1.0, "normal")),
        ((50, 4), 20, ("learn", "principal")),
        ((50, 4), 21, (1.0, "normal")),
        ((20, 249), 4, ("learn", "principal")),
        ((20, 250), 4, (1.0, "normal")),
    ],
)
def test_the_default_prior_follows_from_the_shape_of_the_rows_alone(
    shape, n_classes, expected, monkeypatch
):
    def told(*_, chosen, prior):
        return chosen, prior

    monkeypatch.setattr("skboost.linear_model._class_model.priors_of", told)
    table = Table(np.zeros(shape), np.arange(shape[0]) % n_classes)
    outputs = tuple(range(n_classes)) if n_classes > 2 else ()
    parts = table, Layout([f"x{j}" for j in range(shape[1])], True, outputs), n_classes
    for settings in [{}, *ASKED]:
        found = prior_of_classes(Logistic(**settings), *parts)
        assert found == expected, settings


# Every family once, and every objective with some of them.
@pytest.mark.parametrize("settings", [ASKED[k] for k in (1, 6, 9, 10)])
def test_every_family_and_objective_has_the_prior_along_principal_components(settings):
    few = {"search": GreedySearch(32), "max_iter": 1}
    model = fitted(X[:20, :2], Y[:20], **settings, **few)
    assert model.prior_ == "principal" and hasattr(model, "prior_scale_")
    assert np.isfinite(model.predict_proba(X[:, :2])).all()


@pytest.mark.parametrize("family", ["gaussian", "gaussian-diag", "laplace"])
def test_all_kinds_of_prior_count_where_rows_are_many(monkeypatch, family):
    monkeypatch.setattr("skboost.proposals._propagated._MOST_ENTRIES", 0)
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2000, 3))
    y = (rows[:, 0] > rng.logistic(size=2000)).astype(int)
    blocks = fitted(rows, y, family=family)._fit.run.state.iterate.blocks
    assert {block.node.kind for block in blocks} == {0, 1, 2}


def test_kinds_of_prior_that_are_searched_have_the_shares_of_closed_forms(monkeypatch):
    rng = np.random.default_rng(1)
    # Columns of unlike spread, one of them far from zero.
    rows = rng.standard_normal((60, 4)) @ rng.standard_normal((4, 4)) + [0, 0, 5, 0]
    y = (rows[:, 0] - rows[:, 1] > rng.logistic(size=60)).astype(int)

    def shares():
        model = fitted(rows, y)
        assert model.prior_ == "principal"
        found = np.zeros(3)
        for block in model._fit.run.state.iterate.blocks:
            found[block.node.kind] += block.weight
        return found

    exact = shares()
    monkeypatch.setattr("skboost.proposals._propagated._MOST_ENTRIES", 0)
    assert shares() == pytest.approx(exact, abs=0.01)


def test_a_run_by_default_ends_with_all_nodes_whatever_components_are_asked_for():
    model = of_cancer(objective="relbo")
    assert np.array_equal(model.coef_, of_cancer().coef_)
    more = of_cancer(objective="relbo", tol=0.01, max_iter=model.n_iter_ + 1)
    assert not np.array_equal(more.coef_, model.coef_)


def test_the_automatic_scale_is_learned_where_that_is_cheap():
    few, three = {"rows": X[:20, :2], "y": Y[:20]}, np.arange(20) % 3
    for settings, learned in (
        ({}, True),
        ({"prior_scale": "learn"}, True),
        ({"y": three}, True),
        ({"y": three, "prior": "laplace"}, False),
        ({"prior": NormalPrior(scale=2.0)}, False),
    ):
        assert hasattr(fitted(max_iter=1, **few | settings), "prior_scale_") == learned


def test_a_fit_says_where_bounds_stand_for_evidence():
    wide = fitted(X[:, :2], X[:, 0] > 0, prior_scale=HalfTPrior(scale=1e5))
    assert "% of the probability of scales the component is the" in wide.message_
    assert "lower bound stands" not in of_cancer().message_


@pytest.mark.parametrize(
    ("kind", "n"),
    [
        (Logistic, 16),
        # From 300 rows on, most nodes of full components are interpolated.
        pytest.param(Logistic, 280, marks=pytest.mark.slow),
        pytest.param(Poisson, 30, marks=pytest.mark.slow),
    ],
)
def test_hundreds_of_columns_have_their_means_and_variances(kind, n):
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((n, 320))
    eta = rows[:, :4].sum(axis=1)
    classes = kind is Logistic
    y = eta > rng.logistic(size=n) if classes else rng.poisson(np.exp(0.5 * eta))
    model = kind(prior_scale="learn", **SETTINGS)
    with pytest.warns(ConvergenceWarning, match="and no correlations"):
        wide = clone(model).fit(rows, y)
    # Those of full components, which have room for fewer columns.
    full = model.set_params(family="gaussian-full", prior="normal").fit(rows, y)
    assert wide.coef_ == pytest.approx(full.coef_, abs=1e-6)
    assert wide.posterior_.n_components == full.posterior_.n_components
    assert wide.posterior_.std() == pytest.approx(full.posterior_.std(), rel=1e-6)
    assert wide.prior_scale_ == pytest.approx(full.prior_scale_, rel=0.2)


def test_what_remains_of_several_classes_is_known_without_draws():
    X, y = load_iris(return_X_y=True)
    model = Logistic(random_state=0).fit(X[::10], y[::10])
    model.predict_proba(X)
    run = model._fit.run
    assert "result" not in vars(run.state.fresh)
    known = run.history[-1].known_left
    assert 0.3 < known / model._fit.remaining_before_orbits < 3.0
    assert "result" in vars(run.state.fresh)
    assert model.remaining_kl_ < 0.5


@pytest.mark.slow
def test_what_orbits_find_left_of_separable_classes_is_told():
    # Weights of few draws without orbits have so heavy a tail that they see little.
    X = np.random.default_rng(0).standard_normal((600, 3))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = Logistic(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.fit(X, y).score(X, y) > 0.97
    with pytest.warns(ConvergenceWarning, match="nats of KL remain.*give prior_scale"):
        model.predict_proba_interval(X[:3])
    assert model.remaining_kl_ > 1.0 and model.pareto_k_ > 0.7
    assert "Converged" not in model.message_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        easy = Logistic(random_state=0).fit(X[:60], y[:60])
        fitted(X, y, prior_scale=1.0, orbit="auto")
    assert easy.message_.startswith("Converged") and easy.remaining_kl_ < 0.5
