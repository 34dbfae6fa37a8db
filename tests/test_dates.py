"""Dates are numbers of a unit that nothing shows: every estimator refuses them."""

import inspect
from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skboost.decomposition import RatingRegressor

from .cases import KINDS, LINEAR, ONLINE, SVI, each
from .kinds import GroupedLinear, GroupedPoisson, Linear, Poisson, over

pytestmark = pytest.mark.filterwarnings("ignore:.*offset:UserWarning")
# One of every class, which reads its rows in one way.
CASES = {k: v for k, v in (KINDS | ONLINE | SVI).items() if k != "online, three"}
DAYS = pd.Series(np.datetime64("2020-01-01") + np.arange(48) % 9)
UNITS = {unit: DAYS.astype(f"datetime64[{unit}]") for unit in ("s", "ms", "us", "ns")}
DATES = UNITS | {
    "time zone": DAYS.dt.tz_localize("Europe/Rome"),
    "durations": DAYS - DAYS.min(),
    "periods": DAYS.dt.to_period("D"),
    "datetime.date": DAYS.dt.date,
    "objects": DAYS.astype(object),
    "durations as objects": (DAYS - DAYS.min()).astype(object),
    "periods as objects": DAYS.dt.to_period("D").astype(object),
    "NumPy's as objects": pd.Series([*DAYS.to_numpy()], dtype=object),
    "a gap": DAYS.where(DAYS.index > 0),
}


def frames(X):
    """Rows whose first column is dates of some kind, as frames and arrays."""
    plain = pd.DataFrame(X).rename(columns=str)
    for dates in DATES.values():
        yield plain.assign(**{"0": dates[: len(X)].array})
    dates = np.repeat(DAYS.to_numpy()[: len(X), None], X.shape[1], axis=1)
    yield from (dates, dates - dates[0], dates.astype(object))
    try:
        import polars
    except ImportError:
        return
    days = polars.Series([*DAYS.dt.date[: len(X)]])
    instants = days.cast(polars.Datetime("ms"))
    zoned = instants.dt.replace_time_zone("UTC")
    for dates in (days, instants, zoned, days - days.min(), instants.dt.time()):
        yield polars.DataFrame(plain.to_dict("list")).with_columns(dates.alias("0"))


def some(every, all_of, one):
    """A fifth of all, of which each comes for a fifth of the cases."""
    return [*every][[*all_of].index(one) % 5 :: 5]


@each(
    CASES,
    slow=("groups, ordered", "groups, classes", "groups, poisson", "ordered classes"),
)
def test_columns_of_dates_are_refused_by_name_in_fit_and_predict(name):
    case = CASES[name]
    names = [str(i) for i in range(case.X.shape[1])]
    model = case.new().fit(**case.data() | {"X": pd.DataFrame(case.X, columns=names)})
    for X in some(frames(case.X), CASES, name):
        with pytest.raises(ValueError, match=r"in column '?x?0'?; got dates"):
            case.new().fit(**case.data() | {"X": X})
        if hasattr(model, "predict_entries"):
            continue
        with pytest.raises(ValueError, match=r"in column '?x?0'?; got dates"):
            case.answer(model, X)


@pytest.mark.parametrize("name", CASES)
def test_columns_of_one_name_are_refused_by_it(name):
    """In the words of the package, not of a library below scikit-learn."""
    rows = CASES[name].data()
    names = [*map(str, range(rows["X"].shape[1] - 1)), "0"]
    with pytest.raises(ValueError, match="different names; got 2 of the name '0'"):
        CASES[name].new().fit(**rows | {"X": pd.DataFrame(rows["X"], columns=names)})


@pytest.mark.parametrize("name", CASES)
def test_numbers_beside_rows_are_no_dates(name):
    case = CASES[name]
    known = inspect.signature(case.estimator.fit).parameters
    keywords = {"sample_weight", "offset", "exposure", "trials"} & {*known}
    numeric = case.y is not None and not hasattr(case.estimator, "predict_proba")
    for keyword in sorted(keywords | ({"y"} if numeric else set())):
        more = {"y": np.ones(len(case.X))} if keyword == "trials" else {}
        for kind in ("s", "ns", "time zone", "durations", "periods", "objects"):
            dates = DATES[kind][: len(case.X)].array
            with pytest.raises(ValueError, match=f"{keyword} must have numbers; got d"):
                case.new().fit(**case.data() | more | {keyword: dates})


def test_groups_of_dates_are_the_same_in_every_unit():
    case = LINEAR["groups, normal"]
    plain = pd.DataFrame(case.X).rename(columns=str)
    model = case.new(groups=["2"])
    model.fit(plain.assign(**{"2": UNITS["ns"]}), case.y)
    expected = model.predict(plain.assign(**{"2": UNITS["ns"]}))
    for dates in UNITS.values():
        assert_array_equal(model.predict(plain.assign(**{"2": dates})), expected)
    # Categories would be labels with a coefficient each.
    with pytest.raises(ValueError, match="in column '0'; got dates"):
        case.new(groups=["2"]).fit(
            plain.assign(**{"0": DAYS.astype("category")}), case.y
        )


def test_users_and_items_are_no_dates():
    for dates in (DAYS, DAYS - DAYS.min(), DAYS.dt.date, DAYS.dt.to_period("D")):
        X = pd.DataFrame({"user": [*range(48)], "item": dates})
        with pytest.raises(ValueError, match="labels; got dates"):
            RatingRegressor().fit(X, np.ones(48))
    X = pd.DataFrame({"user": [*range(9)], "item": [*"aabbccdde"]})
    with pytest.raises(ValueError, match="y must have numbers; got dates"):
        RatingRegressor().fit(X, DAYS[:9])


def test_the_advice_of_the_message_works():
    seconds, nanoseconds = (
        (UNITS[unit] - np.datetime64("2020-01-01")) / np.timedelta64(1, "D")
        for unit in ("s", "ns")
    )
    assert_array_equal(seconds, nanoseconds)
    model = GroupedLinear(groups=["g"], max_iter=1)
    frame = pd.DataFrame({"days": seconds, "g": np.arange(48) % 4})
    model.fit(frame, np.sin(np.arange(48.0)))
    assert np.isfinite(model.predict(frame.assign(days=nanoseconds))).all()


PARTS = [
    (Linear, "x + day"),
    (Linear, "x + C(day)"),
    (Poisson, "x + offset(day)"),
    (GroupedLinear, "day + (1 | k)"),
    (GroupedLinear, "x + (day | k)"),
    (GroupedLinear, "x + (0 + day || k)"),
    (GroupedPoisson, "x + offset(day) + (1 | k)"),
]


@over("part", PARTS, slow=PARTS[5:])
def test_formulas_refuse_dates_by_name_in_fit_and_predict(part):
    pytest.importorskip("formulaic")
    estimator, right = part
    plain = pd.DataFrame({"x": np.arange(48) % 5, "k": np.arange(48) % 4})
    plain = plain.assign(day=np.arange(48) % 9 / 9.0, y=np.arange(48) % 7)
    new = partial(estimator, formula="y ~ " + right, max_iter=1, random_state=0)
    model = new().fit(plain)
    for kind, dates in some(DATES.items(), PARTS, part):
        # What is missing is refused first, unless its rows are left out.
        came = "1 missing" if kind == "a gap" else "dates"
        dated = plain.assign(day=dates.array)
        for answer in (new().fit, model.predict):
            with pytest.raises(ValueError, match=f"X must .* column 'day'; got {came}"):
                answer(dated)
        with pytest.raises(ValueError, match="numbers in column 'day'; got dates"):
            new(missing="drop").fit(dated)


def test_the_response_of_a_formula_is_no_date():
    pytest.importorskip("formulaic")
    plain = pd.DataFrame({"x": np.arange(48) % 5})
    for dates in DATES.values():
        for left in ("day", "day - x"):
            model = Linear(formula=f"{left} ~ x", missing="drop")
            with pytest.raises(ValueError, match="must have numbers.*; got dates"):
                model.fit(plain.assign(day=dates.array))
