"""Predictions of models with groups by some factors, by none and for new groups."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skboost import BoostedHierarchicalLinearRegression

from ..cases import HIERARCHICAL, fitted

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
