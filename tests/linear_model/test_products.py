"""Formulas with products of columns that lie far from zero."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ..kinds import FLAT, GROUPED, over

Linear, Logistic, Ordinal, Poisson = FLAT
GroupedLinear, GroupedLogistic, GroupedOrdinal, GroupedPoisson = GROUPED

pytest.importorskip("formulaic")

FAR = 2020.0


def baked(n_rows):
    """Cakes of three recipes at temperatures about zero, from ten batches."""
    rng = np.random.default_rng(0)
    kind, batch = rng.integers(0, 3, n_rows), rng.integers(0, 10, n_rows)
    temp = rng.uniform(-25.0, 25.0, n_rows)
    eta = 0.5 * (kind == 1) - 0.3 * (kind == 2) + 0.03 * temp
    eta += 0.02 * temp * (kind == 1) + rng.normal(0.0, 0.3, 10)[batch]
    return pd.DataFrame(
        {
            "recipe": np.array(["a", "b", "c"])[kind],
            "temp": temp,
            "wet": rng.normal(size=n_rows),
            "batch": [f"b{k}" for k in batch],
            "angle": 5.0 * eta + rng.normal(0.0, 4.0, n_rows),
            "cracks": rng.poisson(np.exp(0.5 * eta + 0.5)),
            "risen": rng.logistic(size=n_rows) < eta,
            "grade": np.digitize(eta + rng.logistic(size=n_rows), [-1.0, 1.0]),
        }
    )


CASES = {
    "numbers": (Linear, "angle"),
    "numbers, scale as it is": (
        Linear, "angle", {"prior_scale": "auto"},
    ),
    "numbers, Laplace": (
        Linear, "angle", {"prior": "laplace"},
    ),
    "classes": (Logistic, "risen"),
    "counts": (Poisson, "cracks"),
    "ordered classes": (Ordinal, "grade"),
    "grouped numbers": (GroupedLinear, "angle"),
    "grouped classes": (GroupedLogistic, "risen"),
    "grouped counts": (GroupedPoisson, "cracks"),
    "grouped ordered classes": (GroupedOrdinal, "grade"),
}  # fmt: skip


def fitted(case, cakes, origin, right="recipe * temp", **keywords):
    kind, response, *settings = CASES[case]
    grouped = kind.__name__.startswith("BoostedHierarchical")
    settings = {"random_state": 0} | dict(*settings) | keywords
    if grouped:
        settings["max_iter"] = 1
    formula = f"{response} ~ {right}" + " + (1 | batch)" * grouped
    return kind.from_formula(formula, at(origin, cakes), **settings)


def at(origin, cakes):
    return cakes.assign(temp=cakes["temp"] + origin)


def effects(model, origin):
    """Coefficients (n,) at the origin and their standard deviations."""
    names, q = list(model.feature_names_in_), model.coef_.size
    back = np.eye(q)
    for kind in ("b", "c"):
        main = f"recipe[T.{kind}]"
        back[names.index(main), names.index(f"{main}:temp")] = origin
    covariance = model.posterior_.covariance()[:q, :q]
    return back @ model.coef_.ravel(), np.sqrt(np.diag(back @ covariance @ back.T))


SLOW = [case for case in CASES if "classes" in case]
SLOW += ["grouped counts", "numbers, Laplace"]


@over("case", CASES, slow=SLOW)
def test_effects_are_those_about_the_centre(case):
    # Fewer rows of these leave the prior of their scale a say.
    cakes = baked(4000 if case in ("counts", "ordered classes") else 1000)
    near, far = (fitted(case, cakes, origin) for origin in (0.0, FAR))
    ask = "predict_proba" if hasattr(near, "classes_") else "predict"
    mean, std = effects(near, 0.0)
    expected = getattr(near, ask)(cakes)
    found = effects(far, FAR)
    assert_allclose(found[1], std, rtol=0.05)
    assert_allclose(found[0], mean, atol=0.2 * std.max())
    answers = getattr(far, ask)(at(FAR, cakes))
    assert_allclose(answers, expected, atol=0.05 * expected.std())


@pytest.mark.parametrize(
    "case", ["numbers", "numbers, scale as it is", "grouped numbers"]
)
def test_standard_errors_are_those_of_least_squares(case):
    cakes = baked(4000)
    model = fitted(case, cakes, FAR)
    temp, kinds = at(FAR, cakes)["temp"], [cakes["recipe"] == k for k in "bc"]
    columns = [*kinds, temp, *(temp * kind for kind in kinds), np.ones(len(cakes))]
    X = np.column_stack(columns).astype(float)
    if case == "grouped numbers":
        X = np.column_stack([X, pd.get_dummies(cakes["batch"]).to_numpy(float)[:, 1:]])
    root = np.linalg.qr(X, mode="r")
    left = cakes["angle"] - X @ np.linalg.lstsq(X, cakes["angle"], rcond=None)[0]
    noise = np.sqrt(left @ left / (len(X) - X.shape[1]))
    expected = noise * np.linalg.norm(np.linalg.inv(root), axis=1)[:5]
    assert_allclose(model.posterior_.std()[:5], expected, rtol=0.03)


RIGHT = (
    "recipe * temp", "recipe + recipe:temp", "wet + wet:temp", "recipe * temp * wet",
    "(recipe + temp + wet)**2", "temp * scale(wet)",
)  # fmt: skip


# Products of three, and of what the formula changes.
@over("right", RIGHT, slow=[RIGHT[1], RIGHT[2], RIGHT[4]])
def test_scales_of_products_do_not_depend_on_origins(right):
    cakes = baked(300)
    near, far = (
        fitted("numbers, scale as it is", cakes, origin, right, max_iter=1)
        for origin in (0.0, FAR)
    )
    names = list(near.feature_names_in_)
    last = [name.count(":") == max(n.count(":") for n in names) for name in names]
    near, far = near._model_.scale[:-1], far._model_.scale[:-1]
    assert_allclose(far[last], near[last])
    # What they contain is widened.
    assert (far > 0.99 * near).all() and (far > 5.0 * near).any()


def test_weights_are_rows():
    cakes = at(200.0, baked(60))
    weight = np.random.default_rng(1).integers(1, 4, 60)
    rows = cakes.loc[np.repeat(cakes.index, weight)]
    formula, settings = "angle ~ recipe * temp", {"random_state": 0}
    kind = Linear
    one = kind.from_formula(formula, cakes, sample_weight=weight, **settings)
    two = kind.from_formula(formula, rows, **settings)
    assert_allclose(one._model_.scale, two._model_.scale)
    assert_allclose(one.coef_interval(), two.coef_interval(), rtol=1e-3)


@over("case", ["numbers", "numbers, Laplace", "counts", "grouped numbers"], slow=SLOW)
def test_without_products_nothing_changes(case):
    kind, response, *settings = CASES[case]
    cakes, parameters = at(200.0, baked(80)), dict(*settings) | {"random_state": 0}
    # Categories have no origin.
    cakes["b"], cakes["in b"] = cakes["recipe"] == "b", cakes["wet"] > 0.5
    cakes["both"] = cakes["b"] & cakes["in b"]
    labels = cakes.assign(b=np.where(cakes["b"], "y", "n"))
    labels["in b"] = np.where(cakes["in b"], "y", "n")
    said = fitted(case, labels, 0.0, "temp + b * `in b`", max_iter=1)
    columns = ["temp", "b", "in b", "both"]
    cakes = cakes.astype(dict.fromkeys(columns, float))
    if case.startswith("grouped"):
        columns, parameters["groups"] = [*columns, "batch"], ["batch"]
    plain = kind(max_iter=1, **parameters).fit(cakes[columns], cakes[response])
    assert_array_equal(said._model_.scale, plain._model_.scale)
    assert_array_equal(said.posterior_.mean(), plain.posterior_.mean())
    assert_array_equal(said.posterior_.std(), plain.posterior_.std())


def test_factors_without_a_mean_and_products_that_others_determine():
    cakes = baked(1000)
    case = "numbers, scale as it is"
    plain = fitted(case, cakes, 0.0, "temp + wet", max_iter=1)
    product = fitted(case, cakes, 0.0, "temp * wet", max_iter=1)
    scale = product._model_.scale
    assert_allclose(scale[:2], plain._model_.scale[:2], rtol=0.01)
    size = cakes["angle"].std(ddof=0) / (cakes["temp"] * cakes["wet"]).std(ddof=0)
    assert scale[2] == pytest.approx(size, rel=0.01)
    # Of two labels that always stand together the product is each of them.
    same = cakes.assign(wet=np.where(cakes["recipe"] == "a", "no", "yes"))
    model = fitted(case, same, 0.0, "recipe * wet", max_iter=1)
    assert (model._model_.scale < 20.0 * cakes["angle"].std()).all()
