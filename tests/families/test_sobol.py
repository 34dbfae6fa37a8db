"""The points behind all base draws."""

import numpy as np
from scipy.special import ndtri

from skboost.families._moments import open_unit_cube


def squared_correlations(seed, n=512, dim=300):
    eps = ndtri(open_unit_cube(n, dim, np.random.default_rng(seed)))
    return np.corrcoef(eps.T)[np.triu_indices(dim, 1)] ** 2


def test_pairs_that_go_wrong_are_others_in_every_call():
    # What a search fits of the correlations in its draws must be no guide to those in
    # the draws that judge it: 45,000 pairs, so independence has an error of 0.005.
    one, other = squared_correlations(1), squared_correlations(2)
    assert np.corrcoef(one, other)[0, 1] < 0.05


def test_points_are_a_net_in_every_coordinate():
    # One point in each of 256 cells, also where coordinates change places.
    points = open_unit_cube(256, 300, np.random.default_rng(0))
    cells = np.sort((256 * points).astype(int), axis=0)
    assert np.array_equal(cells, np.tile(np.arange(256)[:, None], 300))
