"""What the closed forms of ``integral sqrt(s_a s_b)`` share."""

import numpy as np

from skboost._parallel import row_blocks


def log_cosh(u):
    """``ln cosh u``, never negative and accurate to the last digit near zero."""
    return np.log1p(2.0 * np.sinh(0.5 * u) ** 2)


def by_blocks(log_affinity, a, b):
    """Pairs a block at a time, so that the temporaries of many stay small."""
    parts = [log_affinity(a[rows], b[rows]) for rows in row_blocks(*a.shape)]
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True))
