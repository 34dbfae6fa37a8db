"""Summaries of hierarchical regressions, and predictions by some of their factors."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ..cases import HIERARCHICAL, fitted
from ..kinds import GroupedLinear, GroupedLogistic, GroupedPoisson, over


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    ward = np.repeat(np.arange(6), 8)
    X = pd.DataFrame({"age": rng.normal(size=48), "ward": [f"w{k}" for k in ward]})
    y = X["age"] + rng.normal(size=6)[ward] + 0.5 * rng.normal(size=48)
    return GroupedLinear(
        groups=["ward"], slopes={"ward": ["age"]}, max_iter=1, random_state=0
    ).fit(X, y)


def test_a_summary_has_what_was_found(model):
    found = model.summary(0.8)
    assert found.n_rows == 48 and found.n_groups == {"ward": 6}
    assert list(found.coefficients.index) == ["age", "intercept"]
    assert found.coefficients.loc["age", "mean"] == pytest.approx(model.coef_[0])
    low, high = model.coef_interval(0.8)[0]
    assert_allclose(found.coefficients.loc["age", ["lower", "upper"]], [low, high])
    same = model.variance_components_["mean"]
    assert_allclose(found.variance_components["mean"], same)
    text = str(found)
    assert "Rows: 48; groups: ward 6" in text and "80 % interval" in text
    assert all(name in text for name in found.variance_components.index)
    assert f"{model.elbo_:.2f} nats" in text


def test_a_summary_counts_rows_and_not_trials():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=24), np.repeat([3, 5, 7, 9, 11, 13], 4)])
    model = GroupedLogistic(groups=[1], max_iter=1)
    model.fit(X, rng.integers(0, 40, 24), trials=np.full(24, 40))
    assert model.summary().n_rows == 24.0 and "Rows: 24;" in str(model.summary())
    assert model.group_effects_table()["level"].isin([3, 7]).sum() == 2


@over("kind", [GroupedLinear, GroupedPoisson], slow=[GroupedPoisson])
def test_weights_beyond_floating_point_are_refused_by_name(kind):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=48), np.repeat(np.arange(6), 8)])
    y, model = rng.integers(0, 2, 48), kind(groups=[1], max_iter=1, random_state=0)
    light = model.fit(X, y, sample_weight=np.full(48, 1e4)).coef_
    heavy = model.fit(X, y, sample_weight=np.full(48, 2e8)).coef_
    assert_allclose(heavy, light, rtol=0.01, atol=0.01)
    with pytest.raises(ValueError, match="sample_weight must add up to 1e10"):
        model.fit(X, y, sample_weight=np.full(48, 1e12))
    assert_allclose(model.coef_, heavy)


def test_a_table_has_a_row_for_each_effect_of_each_group(model):
    table = model.group_effects_table(0.8)
    first = [tuple(row) for row in table[["factor", "level", "effect"]].values[:3]]
    assert first == [
        ("ward", "w0", "intercept"), ("ward", "w0", "age"), ("ward", "w1", "intercept")
    ]  # fmt: skip
    effects = model._predictive().model.factors[0].fitted_effects
    assert_allclose(table["std"], effects.std(axis=2).ravel())
    assert_allclose(table["mean"], model.group_effects_["ward"].ravel())
    ends = model.group_effects_interval(0.8)["ward"].reshape(-1, 2)
    assert_allclose(table[["lower", "upper"]], ends)
    with pytest.raises(ValueError, match="level"):
        model.summary(1.5)


def test_draws_are_named_for_arviz(model):
    pytest.importorskip("arviz")
    found = model.to_arviz(8, random_state=0, n_chains=2)["posterior"]
    coef, intercept, scales, effects = model.sample_posterior(8, random_state=0)
    assert_allclose(found["coef"].sel(feature="age"), coef[:, 0].reshape(2, 4))
    assert_allclose(found["intercept"], intercept.reshape(2, 4))
    for name, draws in scales.items():
        assert_allclose(found[name], draws.reshape(2, 4))
    slope = found["effects(ward)"].sel({"ward": "w3", "ward: effect": "age"})
    assert_allclose(slope, effects["ward"][:, 3, 1].reshape(2, 4))


def test_displays_take_the_name_of_an_effect(model):
    pytest.importorskip("matplotlib").use("Agg")
    from skboost.inspection import GroupEffectsDisplay

    by_name, by_place = (
        GroupEffectsDisplay.from_estimator(model, effect=one) for one in ("age", 1)
    )
    assert_allclose(by_name.means, by_place.means)
    assert by_name.name == "effect of ward on the slope of age, units of the response"
    assert by_name.labels[0] == "w0"
    with pytest.raises(ValueError, match=r"one of \['intercept', 'age'\].*'sex'"):
        GroupEffectsDisplay.from_estimator(model, effect="sex")


# --- predictions by some factors, by none and for new groups


def test_factors_whose_effects_count():
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"x": rng.normal(size=90), "a": np.arange(90) % 5})
    X["b"] = np.array(list("pqrs"))[rng.integers(0, 4, 90)]
    effect = rng.normal(0, 2, 5)[X["a"]] + (X["b"] == "p")
    y = X["x"] + effect + rng.normal(size=90)
    model = GroupedLinear(
        groups=["a", "b"], slopes={"a": ["x"]}, max_iter=1, random_state=0
    ).fit(X, y)
    coef, intercept, scales, effects = model.sample_posterior(1024, random_state=0)
    eta = X["x"].to_numpy()[:, None] * coef[:, 0] + intercept
    eta += np.einsum(
        "srq,rq->rs", effects["a"][:, X["a"]], X.assign(one=1)[["one", "x"]]
    )
    eta += effects["b"][:, np.searchsorted(list("pqrs"), X["b"]), 0].T
    variance = eta.var(axis=1) + (scales["noise_scale"] ** 2).mean()
    assert_allclose(model.predict(X, return_std=True)[1] ** 2, variance, rtol=1e-3)
    line = X["x"].to_numpy() * coef.mean() + intercept.mean()
    of_a = effects["a"].mean(axis=0)[X["a"]]
    of_a = of_a[:, 0] + of_a[:, 1] * X["x"]
    of_b = effects["b"].mean(axis=0)[np.searchsorted(list("pqrs"), X["b"]), 0]
    for groups, expected, needed in (
        ("all", line + of_a + of_b, ["x", "a", "b"]),
        (["a", "b"], line + of_a + of_b, ["x", "a", "b"]),
        ("none", line, ["x"]),
        ([], line, ["x"]),
        (["a"], line + of_a, ["x", "a"]),
        ("b", line + of_b, ["x", "b"]),
    ):
        found = model.predict(X, groups=groups)
        assert_allclose(found, expected, atol=1e-8)
        assert_allclose(model.predict(X[needed], groups=groups), expected, atol=1e-8)
        rows = X[needed].to_numpy(dtype=object)
        assert_allclose(model.predict(rows, groups=groups), expected, atol=1e-8)
    # Zero is one number, and a new group is not.
    stds = [
        model.predict(X[["x"]], return_std=True, **how)[1].mean()
        for how in ({"groups": "none"}, {"population": True})
    ]
    assert stds[0] < 0.8 * stds[1]
    # Of the factors that count those of new groups.
    spread = model.predict(X, groups=["b"], population=True, return_std=True)[1].mean()
    assert stds[0] < spread < stds[1]
    for answer in (model.predict_interval, model.predict_quantiles):
        known, zero = answer(X), answer(X, groups="none")
        assert np.max(np.abs(np.subtract(known, zero))) > 0.5
    dens = [
        model.log_predictive_density(X, y, groups=g).mean() for g in ("all", "none")
    ]
    assert dens[0] > dens[1] + 0.3
    for wrong in ("county", ["a", "county"], None, 3):
        with pytest.raises(
            ValueError, match=r"'none', or a list of factors, which are \["
        ):
            model.predict(X, groups=wrong)


ASKED = {
    "predict_interval", "predict_proba", "predict_log_proba", "predict_proba_interval",
    "predict_uncertainty",
}  # fmt: skip


@pytest.mark.parametrize("name", HIERARCHICAL)
def test_every_response_is_predicted_with_some_factors(name):
    model, case = fitted(name), HIERARCHICAL[name]
    X, y = case.X, case.y
    for method in {"predict", "log_predictive_density"} | ASKED & {*dir(model)}:
        ask = partial(getattr(model, method), **case.offset)
        more = (y,) if method.endswith("density") else ()
        known, zero, same, less = (
            np.asarray(ask(rows, *more, **how))
            for rows, how in (
                (X, {}), (X, {"groups": "none"}), (X, {"groups": ["x2"]}),
                (X[:, :2], {"groups": "none"}),
            )
        )  # fmt: skip
        if method == "predict":
            assert_array_equal(same, known)
            assert_array_equal(less, zero)
            continue
        assert np.max(np.abs(known - zero)) > 1e-3
        assert_allclose(same, known)
        assert_allclose(less, zero)
