"""One seed, many independent streams.

Every chunk of work draws from a generator that is named by *what* it does (the
iteration, the purpose, the chunk), never by which worker does it or in which
order: so the same seed gives the same fit for every ``n_jobs``, and a run that is
interrupted and continued equals one long run.
"""

import numpy as np
from sklearn.utils import check_random_state

# Purposes keep the streams of one iteration apart.
BASE, SEARCH, POOL, REFINE, FRESH, PROBE, REPORT, MODES, WARP = range(9)
CALIBRATE, INTERVAL, ORBIT, EFFECTS, EVIDENCE = 9, 10, 11, 12, 13


def root_seed(random_state):
    """One integer from whatever scikit-learn accepts as ``random_state``."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def generator(seed, *key):
    """Generator of the stream that ``key`` (non-negative integers) names."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
