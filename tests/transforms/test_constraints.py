"""``Constraints``: what a user may write, and the composite map."""

import json
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost.transforms import Constraints

MIXED = {0: "positive", (4, 1, 6): "simplex", range(2, 4): "ordered", 5: (-1, 2)}
MIXED[8] = (None, 0.5)


@pytest.fixture
def mixed():
    return Constraints(MIXED, dim=9)


def test_there_and_back_inside_all_constraints(mixed):
    assert (mixed.dim, mixed.n_free) == (9, 8)
    # Coordinate 6, the last of the simplex, follows from the others.
    assert [mixed.elementwise(i)[1] for i in (5, 7, 8)] == [5, 6, 7]
    assert mixed.elementwise(4) is None
    assert not mixed.trivial
    z = np.random.default_rng(0).standard_normal((40, 8))
    theta = mixed.forward(z)
    assert mixed.contains(theta).all()
    assert_allclose(mixed.inverse(theta), z, atol=1e-10, rtol=0)
    assert (theta[:, 0] > 0).all()
    assert_allclose(theta[:, [4, 1, 6]].sum(axis=1), 1.0)
    assert (theta[:, 3] > theta[:, 2]).all()
    assert ((theta[:, 5] > -1) & (theta[:, 5] < 2)).all()
    assert_allclose(theta[:, 7], z[:, 6])
    assert (theta[:, 8] < 0.5).all()


def test_jacobian_and_gradients_are_those_of_differences(mixed):
    z = np.random.default_rng(1).standard_normal((3, 8))
    slope = np.random.default_rng(2).standard_normal(9)
    kept = [i for i in range(9) if i != 6]
    h = 1e-5
    pulled = mixed.pull(z, np.tile(slope, (3, 1)))
    of_jacobian = mixed.log_jacobian_gradient(z)
    matrix = np.empty((3, 8, 8))
    for j in range(8):
        up, down = z + h * np.eye(8)[j], z - h * np.eye(8)[j]
        change = (mixed.forward(up) - mixed.forward(down)) / (2 * h)
        matrix[:, :, j] = change[:, kept]
        assert_allclose(pulled[:, j], change @ slope, atol=1e-8, rtol=0)
        change = (mixed.log_jacobian(up) - mixed.log_jacobian(down)) / (2 * h)
        assert_allclose(of_jacobian[:, j], change, atol=1e-8, rtol=0)
    _, log_det = np.linalg.slogdet(matrix)
    assert_allclose(mixed.log_jacobian(z), log_det, atol=1e-7)


def same(one, other):
    return Constraints(one, 3, ["a", "b", "c"]) == Constraints(other, 3)


def test_ways_to_write_the_same():
    everything = {(0, 1, 2): "positive"}
    assert same("positive", everything)
    assert same((0, None), everything)
    assert same(["positive"] * 3, everything)
    assert same({"a": "positive", range(1, 3): (0, np.inf)}, everything)
    assert same({("a", "c"): "positive", -2: "positive"}, everything)
    assert same({np.int64(1): "positive"}, [None, "positive", "real"])
    assert same((None, "positive", (0, 1)), {1: "positive", 2: "unit_interval"})
    assert same("simplex", {(0, 1, 2): "simplex"})
    assert not same({(0, 1, 2): "ordered"}, {(2, 1, 0): "ordered"})
    assert not same("simplex", "ordered")


@pytest.mark.parametrize("nothing", [None, {}, [None] * 3, (None, None), "real"])
def test_no_constraint_is_none(nothing):
    constraints = Constraints(nothing, 3)
    assert constraints.trivial
    z = np.random.default_rng(0).standard_normal((5, 3))
    assert_allclose(constraints.forward(z), z)
    assert_allclose(constraints.log_jacobian(z), 0.0)


@pytest.mark.parametrize(
    ("constraints", "words"),
    [
        ({0: "positve"}, "an entry must be one of"),
        ("positve", "an entry must be one of"),
        ({0: 3.0}, "an entry must be one of"),
        ({0: (0, 1, 2)}, "an entry must be one of"),
        ({0: (True, 2)}, "an entry must be one of"),
        ({0: (1, 1)}, "low < high"),
        ({0: (2.0, 1.0)}, "low < high"),
        ({0: (np.nan, 1.0)}, "low < high"),
        ({0: (np.inf, None)}, "low < high"),
        ({0: (-1e308, 1e308)}, "too wide"),
        ({3: "positive"}, "an index below dim=3"),
        ({-4: "positive"}, "an index below dim=3"),
        ({0.5: "positive"}, "an index below dim=3"),
        ({True: "positive"}, "an index below dim=3"),
        ({"d": "positive"}, "one of the names"),
        ({0: "positive", (0, 1): "ordered"}, "coordinate 0 is named more than once"),
        ({(1, 1): "ordered"}, "coordinate 1 is named more than once"),
        ({0: "simplex"}, "needs at least 2"),
        ({(): "positive"}, "at least one coordinate"),
        (["positive"], "a sequence of length 3"),
        ([0.0, 1.0], "a sequence of length 3"),
        (3, "must be a dict"),
        (["simplex"] * 3, "several coordinates together"),
    ],
)
def test_what_means_nothing_is_refused_by_name(constraints, words):
    with pytest.raises(ValueError, match=rf"constraints.*{words}"):
        Constraints(constraints, 3, ["a", "b", "c"])


def test_a_name_needs_names():
    with pytest.raises(ValueError, match="there are none"):
        Constraints({"a": "positive"}, 2)
    with pytest.raises(ValueError, match="needs at least 2"):
        Constraints("simplex", 1)


def test_violations_are_spelled_out(mixed):
    point = mixed.forward(np.zeros((1, 8)))[0]
    assert mixed.violated_by(point) is None
    changes = {0: "'positive' of coordinate 0", 4: "'simplex' of coordinates 4, 1, 6"}
    changes |= {2: "'ordered' of coordinates 2, 3", 7: "'real' of coordinate 7"}
    for i, words in changes.items():
        wrong = point.copy()
        wrong[i] = np.nan if i == 7 else -9.0 if i != 2 else 9.0
        assert words in mixed.violated_by(wrong)
        assert not mixed.contains(wrong[None])[0]


def test_records_are_json_and_make_the_same(mixed):
    text = json.dumps(mixed.record())
    again = Constraints.from_record(json.loads(text), 9)
    assert again == mixed
    assert hash(again) == hash(mixed)
    assert pickle.loads(pickle.dumps(mixed)) == mixed
    z = np.random.default_rng(0).standard_normal((5, 8))
    np.testing.assert_array_equal(again.forward(z), mixed.forward(z))


def test_the_repr_is_short():
    many = repr(Constraints("positive", 500))
    assert many == "Constraints({range(0, 500): 'positive'}, dim=500)"
    assert repr(Constraints({1: (0, 2)}, 3)) == "Constraints({1: (0.0, 2.0)}, dim=3)"
