"""Affinities and root products: identities, closed forms and differences."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from skboost.families import (
    DiagonalGaussian,
    FullGaussian,
    Laplace,
    LowRankGaussian,
    StudentT,
    VariationalFamily,
    as_family,
)

ROOTS = {
    "full": FullGaussian(),
    "diag": DiagonalGaussian(),
    "rank1": LowRankGaussian(1),
    "rank2": LowRankGaussian(2),
    "rank10": LowRankGaussian(),
}


@pytest.fixture(params=ROOTS.values(), ids=ROOTS.keys())
def family(request):
    return request.param


def affinity(family, a, b):
    """Value and gradients of one pair."""
    value, grad_a, grad_b = family.log_affinity(a[None], b[None])
    return value[0], grad_a[0], grad_b[0]


def test_affinity_slopes(family, component, slope):
    a, b = component(family, 3), component(family, 3)
    _, grad_a, grad_b = affinity(family, a, b)
    close = {"rtol": 1e-6, "atol": 1e-8}
    assert_allclose(grad_a, slope(lambda p: affinity(family, p, b)[0], a), **close)
    assert_allclose(grad_b, slope(lambda p: affinity(family, a, p)[0], b), **close)


def test_pairs_are_taken_row_by_row_also_in_blocks(family, component):
    dim, n = 30, 465
    a, b = (np.tile([component(family, dim) for _ in range(3)], (155, 1)) for _ in "ab")
    together = family.log_affinity(a, b)
    assert together[0].shape == (n,)
    for i in (0, 1, 2, n - 2, n - 1):
        alone = affinity(family, a[i], b[i])
        for part, one in zip(together, alone, strict=True):
            assert_allclose(part[i], one, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dim", [1, 30])
def test_affinity_of_a_component_with_itself(family, component, dim):
    a = component(family, dim)
    value, grad_a, grad_b = affinity(family, a, a.copy())
    assert -1e-14 * dim <= value <= 0
    product = family.root_product(a, a.copy())
    theta = np.linspace(-1.0, 1.0, 3)[:, None] * np.ones(dim)
    expected = family.log_density(theta, a)
    assert_allclose(product.log_density(theta), expected, rtol=1e-10)
    # In coordinates in which every parameter moves the density at the same rate.
    for gradient in (grad_a, grad_b):
        charted = family.pull_move(a, np.zeros_like(a), gradient)
        assert_allclose(charted, 0, atol=1e-14 * dim)


def test_far_pairs_do_not_overflow(family, component):
    a, b = component(family, 3), component(family, 3)
    far = family.recentre(b, family.mean(b) + 1e6)
    for other in (far, family.widen(b, 1e-40), family.widen(far, 1e40)):
        value, grad_a, grad_b = affinity(family, a, other)
        assert value < -20
        assert np.isfinite([value, *grad_a, *grad_b]).all()


@pytest.mark.parametrize("name", ["full", "rank2", "rank10"])
def test_long_axes_cost_no_digits(name, rng):
    # Five digits between the scales: squared, they would leave six.
    family, dim = ROOTS[name], 12
    axes = 1e5 * rng.standard_normal((dim, 2))
    if name == "full":
        a = family.from_moments(np.zeros(dim), np.eye(dim) + axes @ axes.T)
    else:
        factor = np.zeros((dim, family.n_params(dim) // dim - 2))
        factor[:, :2] = axes
        a = np.concatenate([np.zeros(2 * dim), factor.ravel()])
    assert abs(affinity(family, a, a.copy())[0]) < 1e-14 * dim
    product = family.root_product(a, a.copy())
    assert_allclose(product.std(), family.std(a), rtol=1e-9)
    # A small move along the narrow directions is seen at its true size.
    moved = family.recentre(a, 1e-3 * np.ones(dim))
    narrow = np.linalg.qr(axes, mode="complete")[0][:, 2:]
    expected = -np.sum((narrow.T @ np.full(dim, 1e-3)) ** 2) / 8
    assert_allclose(affinity(family, a, moved)[0], expected, rtol=1e-4)


@pytest.mark.parametrize("dim", [1, 7])
def test_root_product_is_normalised(family, component, rng, dim):
    a, b = component(family, dim), component(family, dim)
    product = family.root_product(a, b)
    theta = 2 * rng.standard_normal((20, dim))
    expected = 0.5 * (family.log_density(theta, a) + family.log_density(theta, b))
    expected -= affinity(family, a, b)[0]
    assert_allclose(product.log_density(theta), expected, rtol=1e-9, atol=1e-9)


def test_rank_of_a_low_rank_product_is_the_sum_of_both(component):
    family = LowRankGaussian(3)
    for dim, rank in ((2, 2), (5, 5), (6, 6), (40, 6)):
        a, b = component(family, dim), component(family, dim)
        product = family.root_product(a, b)
        assert product.family.low_rank and product.family.rank == rank
        assert product.params.shape == (product.family.n_params(dim),)


NUMBERS = st.floats(-4.0, 4.0, allow_subnormal=False)


@pytest.mark.parametrize("name", ROOTS)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_affinity_and_product_of_any_pair(name, data):
    family, dim = ROOTS[name], data.draw(st.integers(1, 3))
    a, b = (
        data.draw(arrays(float, family.n_params(dim), elements=NUMBERS)) for _ in "ab"
    )
    value, grad_a, grad_b = affinity(family, a, b)
    assert value <= 0
    assert np.isfinite([value, *grad_a, *grad_b]).all()
    assert abs(affinity(family, a, a.copy())[0]) <= 1e-13
    product = family.root_product(a, b)
    theta = np.array([family.mean(a), family.mean(b), product.mean()])
    roots = 0.5 * (family.log_density(theta, a) + family.log_density(theta, b))
    found = product.log_density(theta)
    assert_allclose(found, roots - value, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("width", [0.3, 4.0])
def test_tails_of_a_widened_component(family, component, rng, width):
    params, theta = component(family, 3), rng.standard_normal((9, 3))
    peak = family.log_density(family.mean(params)[None], params)[0]
    assert_allclose(family.log_peak(params), peak, rtol=1e-12)
    depth = peak - family.log_density(theta, params)
    expected = peak - 3 * np.log(width) - depth / width**family.tail_power
    wide = family.widen(params, width)
    assert_allclose(family.log_density(theta, wide), expected, rtol=1e-9)


def test_a_family_without_a_closed_form_says_which_have_one():
    class Other(VariationalFamily):
        pass

    one = np.zeros((1, 2))
    assert as_family("gaussian", 2).root_products
    for other in (Other(), StudentT(), Laplace()):
        assert not other.root_products
        for call, at in ((other.log_affinity, one), (other.root_product, one[0])):
            with pytest.raises(ValueError, match=re.escape(repr(other))) as caught:
                call(at, at)
            assert str(caught.value).endswith("Use family='gaussian'.")


def test_a_family_that_lacks_a_method_says_which():
    class Own(VariationalFamily):
        root_products = True

    one = np.zeros((1, 2))
    for name, arguments in (("log_affinity", (one, one)), ("entropy", (one[0],))):
        with pytest.raises(NotImplementedError, match=rf"Own does not define {name}\."):
            getattr(Own(), name)(*arguments)
