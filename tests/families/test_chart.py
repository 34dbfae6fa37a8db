"""Coordinates of a search: all parameters, from where it starts."""

import numpy as np
from numpy.testing import assert_allclose


def test_a_chart_starts_at_its_component_and_moves_every_parameter(family, component):
    params = component(family, 3)
    chart = family.chart(params)
    assert chart.size == len(params)
    assert_allclose(chart.move(np.zeros(chart.size)), params, atol=1e-12, rtol=0)
    x = 0.3 * np.ones(chart.size)
    assert_allclose(chart.move(x), family.move(params, x))
    assert_allclose(chart.pull(x, x), family.pull_move(params, x, x))


def test_limits_bound_the_scales_alone(family, component):
    chart = family.chart(component(family, 3))
    assert np.array_equal(np.isfinite(chart.limits), chart.scale_mask)
    assert (chart.limits > 0).all()
