"""Data of the tests of mixtures."""

import numpy as np
import pytest


def two_groups(n=80, dim=2, apart=4.0, seed=0):
    """Rows in two groups, and the group of each row."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    X = rng.standard_normal((n, dim)) * np.where(labels, 1.0, 0.6)[:, None]
    X += apart * labels[:, None]
    return X, labels


@pytest.fixture(scope="session")
def groups():
    return two_groups()
