"""One seed, many independent streams.

Every chunk of work draws from a generator that is named by *what* it does (the
iteration, the purpose, the chunk), never by which worker does it or in which
order: so the same seed gives the same fit for every ``n_jobs``, and a run that is
interrupted and continued equals one long run.
"""

from functools import lru_cache
from numbers import Integral

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc
from sklearn.utils import check_random_state

# Coordinates that points of low discrepancy fill more evenly than random ones.
_MOST_QUASI = 1000

# Purposes keep the streams of one iteration apart.
BASE, SEARCH, POOL, REFINE, FRESH, PROBE, REPORT, MODES, WARP = range(9)
INTERVAL, ORBIT, EFFECTS, EVIDENCE = 10, 11, 12, 13


def root_seed(random_state):
    """One integer from whatever scikit-learn accepts as ``random_state``."""
    draw = _drawn_once if isinstance(random_state, Integral) else _drawn
    return draw(random_state)


def _drawn(random_state):
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


# To begin a `RandomState` takes as long as the modes of a small fit.
_drawn_once = lru_cache(_drawn)


def generator(seed, *key):
    """Generator of the stream that ``key`` (non-negative integers) names."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def quasi_normal(sizes, rng):
    """Standard normal arrays of shapes (q, n, m), whose n draws are quasi-random.

    Scrambled Sobol points (Owen 1997) with a coordinate for each of q and m of all
    arrays: averages over draws depend less on which coordinate has which number.
    """
    if not sizes:
        return []
    widths, n = [q * m for q, _, m in sizes], sizes[0][1]
    if not 0 < sum(widths) <= _MOST_QUASI:
        return tuple(map(rng.standard_normal, sizes))
    points = qmc.Sobol(sum(widths), seed=rng).random_base2((n - 1).bit_length())[:n]
    normal = ndtri(np.clip(points, 1e-12, 1.0 - 1e-12))
    parts = np.split(normal, np.cumsum(widths)[:-1], axis=1)
    return tuple(
        part.reshape(n, q, m).swapaxes(0, 1)
        for part, (q, _, m) in zip(parts, sizes, strict=True)
    )
