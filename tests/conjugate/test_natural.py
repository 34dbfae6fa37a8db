"""Steps in natural parameters: how far they go, and where noise has to end."""

import numpy as np
from numpy.testing import assert_allclose

from skboost.conjugate import natural_step
from skboost.conjugate._natural import Cone


class Counts:
    """Two positive numbers, each a group, whose optimum is one and a count."""

    name = "counts"

    def target(self, natural, statistics):
        return {"a": 1.0 + statistics}

    def cone(self, own):
        return Cone((own["a"],))


NATURAL = {"counts": {"a": np.array([2.0, 4.0])}}
SUMS = np.array([6.0, 1.0])


def test_a_step_goes_its_rate_of_the_way():
    done = natural_step((Counts(),), NATURAL, SUMS, 0.25)
    assert_allclose(done.natural["counts"]["a"], [0.75 * 2 + 0.25 * 7, 0.75 * 4 + 0.5])
    assert (done.n_groups, done.n_shrunk) == (0, 0)
    assert NATURAL["counts"]["a"].tolist() == [2.0, 4.0]


def test_noise_ends_one_hundredth_before_the_boundary():
    # From 7 towards -7, and from 2 to 5.
    noise = np.array([-14.0, 3.0])
    done = natural_step((Counts(),), NATURAL, SUMS, 1.0, noise)
    assert_allclose(done.natural["counts"]["a"], [0.01 * 7.0, 5.0])
    assert (done.n_groups, done.n_shrunk) == (2, 1)
