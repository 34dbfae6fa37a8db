"""Predictions of models with groups by some factors, by none and for new groups."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import skboost
from skboost import BoostedHierarchicalLinearRegression

pd = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def test_factors_whose_effects_count():
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"x": rng.normal(size=90), "a": np.arange(90) % 5})
    X["b"] = np.array(list("pqrs"))[rng.integers(0, 4, 90)]
    effect = rng.normal(0, 2, 5)[X["a"]] + (X["b"] == "p")
    y = X["x"] + effect + rng.normal(size=90)
    model = BoostedHierarchicalLinearRegression(
        groups=["a", "b"], slopes={"a": ["x"]}, max_iter=1, random_state=0
    ).fit(X, y)
    coef, intercept, _, effects = model.sample_posterior(1024, random_state=0)
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


@pytest.mark.parametrize("kind", ["Logistic", "Ordinal", "Poisson"])
def test_every_response_is_predicted_with_some_factors(kind):
    rng = np.random.default_rng(4)
    X = pd.DataFrame({"x": rng.normal(size=80), "g": np.arange(80) % 5})
    y = rng.poisson(np.exp(0.4 * X["x"] + np.linspace(-1.5, 1.5, 5)[X["g"]]))
    y = y if kind == "Poisson" else np.minimum(y, 1 + (kind == "Ordinal"))
    cls = getattr(skboost, f"BoostedHierarchical{kind}Regression")
    model = cls(groups=["g"], max_iter=1, random_state=0).fit(X, y)
    names = ["predict", "log_predictive_density"]
    names += {
        "Poisson": ["predict_interval"],
        "Ordinal": ["predict_proba", "predict_log_proba"],
        "Logistic": ["predict_proba", "predict_proba_interval", "predict_uncertainty"],
    }[kind]
    for name in names:
        answer, more = getattr(model, name), (y,) if name.endswith("density") else ()
        known, zero = answer(X, *more), answer(X, *more, groups="none")
        assert np.max(np.abs(np.subtract(known, zero))) > 0.1
        assert_allclose(answer(X, *more, groups=["g"]), known)
        assert_allclose(answer(X[["x"]], *more, groups="none"), zero)
