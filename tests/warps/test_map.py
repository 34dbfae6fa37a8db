"""Warps: increasing tails, the triangular map, and constraints behind it."""

import json
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost.transforms import Constraints
from skboost.warps import Warp, WarpedConstraints
from skboost.warps._map import Tails, inverse_tails, soft_clip

STEP = 1e-6
EXPONENTS = [(1.0, 1.0), (0.4, 2.5), (2.9, 0.5)]


def random_warp(dim, seed=0):
    rng = np.random.default_rng(seed)
    return Warp(
        rng.standard_normal(dim),
        np.eye(dim) + 0.3 * rng.standard_normal((dim, dim)),
        np.exp(rng.uniform(-1.0, 1.0, dim)),
        np.exp(rng.uniform(-1.0, 1.0, dim)),
        np.tril(0.7 * rng.standard_normal((dim, dim)), -1),
        np.tril(0.5 * rng.standard_normal((dim, dim)), -1),
        limit=2.0,
    )


def slopes(function, z):
    """Central differences in every coordinate, stacked last."""
    steps = STEP * np.eye(z.shape[1])
    each = [(function(z + h) - function(z - h)) / (2 * STEP) for h in steps]
    return np.stack(each, axis=-1)


@pytest.fixture
def z():
    return np.random.default_rng(1).standard_normal((40, 4))


# --- tails


@pytest.mark.parametrize(("a", "b"), EXPONENTS)
def test_tails_grow_like_powers(a, b):
    z = np.linspace(-50.0, 50.0, 2001)
    tails = Tails.of(z, a, b)
    assert (np.diff(tails.value) > 0).all()
    near_zero = tails.value[1000], tails.log_slope[1000]
    assert_allclose(near_zero, 0.0, atol=1e-15, rtol=0)
    if a == b == 1.0:
        assert_allclose(tails.value, z, rtol=1e-12, atol=1e-14)
    z = np.array([1e6, 1e7])
    right = Tails.of(z, a, b).value
    left = Tails.of(-z, a, b).value
    assert_allclose(np.diff(np.log(right)) / np.log(10), a, atol=2e-3)
    assert_allclose(np.diff(np.log(-left)) / np.log(10), b, atol=2e-3)


@pytest.mark.parametrize(("a", "b"), EXPONENTS)
def test_tails_there_and_back(a, b):
    z = np.concatenate([np.linspace(-8.0, 8.0, 301), [-1e5, 1e-9, 1e5]])
    value = Tails.of(z, a, b).value
    assert_allclose(inverse_tails(value, a, b), z, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize(("a", "b"), EXPONENTS)
def test_slopes_of_tails_are_their_differences(a, b):
    z = np.linspace(-4.0, 4.0, 33)

    def at(z, a=a, b=b):
        tails = Tails.of(z, a, b)
        return np.array([tails.value, tails.log_slope])

    in_z = (at(z + STEP) - at(z - STEP)) / (2 * STEP)
    tails = Tails.of(z, a, b)
    assert_allclose(np.exp(tails.log_slope), in_z[0], rtol=1e-7)
    assert_allclose(tails.log_slope_slope(z, a, b), in_z[1], atol=1e-8, rtol=0)
    up, down = np.exp(STEP), np.exp(-STEP)
    in_a = (at(z, a * up) - at(z, a * down)) / (2 * STEP)
    in_b = (at(z, b=b * up) - at(z, b=b * down)) / (2 * STEP)
    value_a, value_b, log_a, log_b = tails.exponent_slopes(a, b)
    for slope, difference in zip(
        (value_a, log_a, value_b, log_b), (*in_a, *in_b), strict=True
    ):
        assert_allclose(slope, difference, rtol=1e-6, atol=1e-7)


def test_soft_clip_is_bounded_and_nearly_the_identity_within():
    x = np.linspace(-100.0, 100.0, 4001)
    clipped, slope = soft_clip(x, 2.0)
    assert (np.abs(clipped) < 2.0).all()
    assert (np.diff(clipped) > 0).all()
    inside = np.abs(x) <= 1.0
    assert_allclose(clipped[inside], x[inside], rtol=0.02)
    difference = (soft_clip(x + STEP, 2.0)[0] - soft_clip(x - STEP, 2.0)[0]) / STEP / 2
    assert_allclose(slope, difference, atol=1e-8, rtol=0)


# --- the map


def test_there_and_back(z):
    warp = random_warp(4)
    assert_allclose(warp.inverse(warp.forward(2 * z)), 2 * z, rtol=1e-8, atol=1e-10)


def test_without_edges_and_exponents_it_is_linear(z):
    one, none = np.ones(4), np.zeros((4, 4))
    matrix = np.random.default_rng(2).standard_normal((4, 4))
    warp = Warp(one, matrix, one, one, none, none)
    assert_allclose(warp.forward(z), 1.0 + z @ matrix.T, rtol=1e-12)
    volume = np.linalg.slogdet(matrix)[1]
    assert_allclose(warp.log_jacobian(z), volume, rtol=1e-12)


def test_every_coordinate_increases_in_its_own():
    warp = random_warp(4)
    line = np.linspace(-6.0, 6.0, 201)
    for j in range(4):
        z = np.tile(np.random.default_rng(j).standard_normal(4), (201, 1))
        z[:, j] = line
        u = np.linalg.solve(warp.matrix, (warp.forward(z) - warp.shift).T)
        assert (np.diff(u[j]) > 0).all()
        # Those before it know nothing of it.
        assert_allclose(u[:j], u[:j, :1].repeat(201, axis=1), atol=1e-10, rtol=0)


BASE = Constraints({0: "positive", (1, 2, 3): "simplex", 4: (-1.0, 2.0)}, dim=5)


# Of the simplex of the constraints its first two coordinates are free.
@pytest.mark.parametrize(
    ("warp", "scale", "free"),
    [
        (random_warp(4), 1.0, [0, 1, 2, 3]),
        (WarpedConstraints(BASE, random_warp(4)), 0.3, [0, 1, 2, 4]),
    ],
    ids=["warp", "composition"],
)
def test_slopes_of_the_map_are_its_differences(warp, scale, free, z):
    z = scale * z
    y, log_jacobian, pull = warp.mapped(z)
    assert_allclose(y, warp.forward(z))
    assert_allclose(log_jacobian, warp.log_jacobian(z))
    volumes = np.linalg.slogdet(slopes(lambda z: warp.forward(z)[:, free], z))[1]
    assert_allclose(log_jacobian, volumes, atol=1e-6)
    of_values = slopes(lambda z: np.sin(warp.forward(z)).sum(axis=1), z)
    assert_allclose(warp.pull(z, np.cos(y)), of_values, atol=1e-6)
    of_volumes = slopes(warp.log_jacobian, z)
    assert_allclose(warp.log_jacobian_gradient(z), of_volumes, atol=1e-6)
    assert_allclose(pull(np.cos(y)), of_values + of_volumes, atol=2e-6)


def test_far_points_stay_finite_and_only_finite_points_are_images():
    warp = random_warp(3)
    far = np.array([[1e300, -1e300, 1e300], [-1e9, 1e9, 0.0]])
    for function in (warp.forward, warp.log_jacobian, warp.log_jacobian_gradient):
        assert np.isfinite(function(far)).all()
    points = np.array([[0.0, 1.0], [np.inf, 0.0], [np.nan, 0.0]])
    assert random_warp(2).contains(points).tolist() == [True, False, False]


def test_records_and_pickles_are_equal_warps(z):
    warp = random_warp(4)
    again = Warp.from_record(json.loads(json.dumps(warp.record())))
    for other in (again, pickle.loads(pickle.dumps(warp))):
        assert other == warp and hash(other) == hash(warp)
        assert_allclose(other.forward(z), warp.forward(z), rtol=0)
    assert warp != random_warp(4, seed=1)
    assert repr(warp) == "Warp(dim=4, n_edges=12)"


# --- constraints behind it


@pytest.fixture
def warped():
    return WarpedConstraints(BASE, random_warp(4))


def test_composition_is_one_map_after_the_other(warped, z):
    z = 0.3 * z
    theta = warped.forward(z)
    assert_allclose(theta, BASE.forward(warped.warp.forward(z)))
    assert warped.contains(theta).all()
    assert_allclose(warped.inverse(theta), z, atol=1e-8, rtol=0)
    assert not warped.trivial
    assert warped.elementwise(0) is None
    assert (warped.range_of(0).low, warped.range_of(4).high) == (0.0, 2.0)
    # What a point violates is named as without a warp.
    point = np.array([-1.0, 0.2, 0.3, 0.5, 0.0])
    assert warped.violated_by(point) == BASE.violated_by(point)
    with pytest.raises(ValueError, match="warp must have dimension 4"):
        WarpedConstraints(BASE, random_warp(3))


def test_records_of_warped_constraints(warped):
    record = json.loads(json.dumps(warped.record()))
    assert WarpedConstraints.from_record(record, 5) == warped
    assert pickle.loads(pickle.dumps(warped)) == warped
    assert warped != BASE and BASE != warped
    assert hash(warped) == hash(WarpedConstraints(BASE, random_warp(4)))
    assert repr(warped).startswith("WarpedConstraints(Constraints(")
