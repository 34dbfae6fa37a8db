import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skboost.inspection import (
    ComparisonDisplay,
    PredictionDisplay,
    PredictiveCheckDisplay,
    ResidualDisplay,
    compare,
    quantile_residuals,
    sample_predictive,
)
from tests.cases import LINEAR, OTHERS, each, fitted

from ..kinds import Linear

pytest.importorskip("matplotlib").use("Agg")

ROWS = LINEAR | {"ordered classes": OTHERS["ordered classes"]}


def texts(display):
    """What stands on the axes and in the legend."""
    axes = np.ravel(display.ax_)
    legends = [*display.figure_.legends, *(ax.get_legend() for ax in axes)]
    keys = [key.get_text() for one in legends if one for key in one.get_texts()]
    return [ax.get_xlabel() for ax in axes] + [ax.get_ylabel() for ax in axes] + keys


def drawn(display):
    display.figure_.draw_without_rendering()
    return display


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = Linear(random_state=0)
    return make_pipeline(StandardScaler(), model).fit(X, y), X, y


@each(ROWS, slow={*ROWS} - {"poisson"})
def test_every_model_is_drawn(name):
    model, case = fitted(name), ROWS[name]
    settings = {"n": 100, **case.offset}
    X, y = case.X, case.y
    rows = drawn(PredictionDisplay.from_estimator(model, X, y=y, **settings))
    curve = drawn(PredictionDisplay.from_estimator(model, X, 0, y=y, **settings))
    check = drawn(PredictiveCheckDisplay.from_estimator(model, X, y, **settings))
    residuals = drawn(ResidualDisplay.from_estimator(model, X, y, **settings))
    against = drawn(ResidualDisplay.from_estimator(model, X, y, 1, **settings))
    contrasts = drawn(ComparisonDisplay.from_estimator(model, X, {0: 1.0}, **settings))
    for display in (rows, curve, check, residuals, against, contrasts):
        assert all(texts(display)) or texts(display)[-1] == ""
    np.testing.assert_array_equal(against.against, X[:, 1])
    several = len(getattr(model, "classes_", [0, 1]))
    lines = several if several > 2 else 1
    assert curve.mean.shape[1] == lines and curve.ends.shape[1:] == (lines, 2)
    assert (curve.ends[..., 0] <= curve.mean).all()
    assert (curve.mean <= curve.ends[..., 1]).all()
    words = "probability" if hasattr(model, "classes_") else "expected"
    assert words in texts(rows)[1] and "rows, in order" in texts(rows)[0]
    assert (check.labels is None) == (name.split(", ")[-1] in ("normal", "student_t"))
    if check.labels:
        assert check.observed.sum() == 48 == round(check.observed.sum())


def test_predictions_against_a_column_are_those_by_hand(diabetes):
    model, X, y = diabetes
    display = PredictionDisplay.from_estimator(
        model, X, "bmi", y=y, at={"sex": 0.05}, n=500
    )
    some = X.iloc[np.unique(np.linspace(0, 441, 100).astype(int))].assign(sex=0.05)
    by_hand = [
        model.predict(some.assign(bmi=value)).mean() for value in display.values[::10]
    ]
    width = np.diff(display.ends[::10, 0])[:, 0]
    assert np.all(np.abs(display.mean[::10, 0] - by_hand) < 0.1 * width)
    assert len(display.values) == 41 and display.values[0] == X["bmi"].min()
    # New responses vary more than their mean does, and most of the data are among them.
    assert np.all(np.diff(display.new)[:, 0] > 3.0 * np.diff(display.ends[:, 0])[:, 0])
    low, high = (np.interp(X["bmi"], display.values, end) for end in display.new.T)
    assert 0.84 < np.mean((y > low) & (y < high)) < 0.96
    said = texts(display)
    assert said[:2] == ["bmi", "expected response"]
    assert {"mean", "data", "90 % of new responses"} <= {*said}


def test_rows_in_order_mark_those_of_another_class():
    model, case = fitted("two classes"), ROWS["two classes"]
    display = PredictionDisplay.from_estimator(model, case.X, y=case.y)
    p = np.sort(model.predict_proba(case.X)[:, 1])
    np.testing.assert_allclose(display.mean[:, 0], p, atol=0.05)
    assert display.wrong.sum() == np.sum(model.predict(case.X) != case.y) > 0
    assert texts(display)[1] == "probability of yes"


def test_labels_have_points_and_their_own_place():
    pytest.importorskip("formulaic")
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"diet": np.tile(["rice", "meat"], 30)})
    data["weight"] = rng.normal(size=60) + (data["diet"] == "meat")
    model = Linear(random_state=0)
    model = model.from_formula("weight ~ diet", data, random_state=0)
    display = drawn(
        PredictionDisplay.from_estimator(model, data, "diet", y=data["weight"])
    )
    ticks = [label.get_text() for label in display.ax_.get_xticklabels()]
    assert ticks == ["meat", "rice"] and display.mean[0, 0] > display.mean[1, 0] + 0.3


def test_checks_see_what_the_model_lacks():
    rng = np.random.default_rng(0)
    X, share = rng.normal(size=(400, 1)), []
    model = Linear(random_state=0)
    # Normal noise as the model has it, and skewed noise.
    for noise in (rng.normal(size=400), rng.exponential(3.0, 400)):
        y = X[:, 0] + noise
        display = PredictiveCheckDisplay.from_estimator(model.fit(X, y), X, y)
        low, high = display.ends.T
        share.append(np.mean((display.observed >= low) & (display.observed <= high)))
    assert share[0] > 0.85 > 0.6 > share[1]


def test_a_rootogram_counts_rows_of_the_data_and_of_draws():
    model, case = fitted("poisson"), ROWS["poisson"]
    display = PredictiveCheckDisplay.from_estimator(
        model, case.X, case.y, n=400, random_state=0, **case.offset
    )
    n = len(display.labels)
    counts = np.bincount(case.y.astype(int), minlength=n)
    np.testing.assert_array_equal(display.observed[:-1], counts[: n - 1])
    draws = sample_predictive(model, case.X, 400, random_state=0, **case.offset)
    zeros = np.median((draws == 0).sum(axis=1))
    assert display.middle[0] == zeros and display.labels[:3] == ["0", "1", "2"]
    # However large counts are, zeros have a bar of their own.
    y = np.append(case.y[:-1], 57.0)
    display = PredictiveCheckDisplay.from_estimator(model, case.X, y, **case.offset)
    assert display.labels[:2] == ["0", "1-2"] and display.labels[-1] == "57+"
    assert display.observed[0] == np.sum(y == 0) and display.observed.sum() == len(y)


def test_comparisons_are_drawn_as_the_table_says(diabetes):
    model, X, _ = diabetes
    wanted = {"bmi": [0.0, 0.05], "bp": "slope"}
    display = ComparisonDisplay.from_estimator(model, X, wanted, level=0.8)
    table = compare(model, X, wanted, level=0.8)
    segments = np.array(display.ax_.collections[0].get_segments())[:, :, 0]
    np.testing.assert_allclose(segments, table[["lower", "upper"]])
    ticks = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert ticks == ["bmi: 0.05 vs 0.0", "bp: slope"]
    assert texts(display)[0] == "difference of the average response,\n80 % interval"
    display = ComparisonDisplay.from_estimator(model, X, {"bmi": [0, 0.05]}, ratio=True)
    assert "ratio" in texts(display)[0]
    with pytest.raises(ValueError, match="ratio must be False"):
        ComparisonDisplay.from_estimator(model, X, wanted, ratio=True)


def test_residuals_are_those_of_the_function_and_other_columns_are_refused(diabetes):
    model, X, y = diabetes
    display = ResidualDisplay.from_estimator(model, X, y, "bmi", n=200)
    expected = quantile_residuals(model, X, y, n=200)
    np.testing.assert_array_equal(display.residuals, expected)
    assert display.ax_[0].get_xlabel() == "bmi"
    with pytest.raises(ValueError, match="column must name columns of X; got 'mass'"):
        ResidualDisplay.from_estimator(model, X, y, "mass")
    with pytest.raises(ValueError, match="column must name columns of X; got 'mass'"):
        PredictionDisplay.from_estimator(model, X, "mass")
    with pytest.raises(ValueError, match="at must name columns of X; got 'mass'"):
        PredictionDisplay.from_estimator(model, X, "bmi", at={"mass": 1})
