"""What a conjugate model says of rows of data."""

from typing import NamedTuple


class Expectation(NamedTuple):
    """Sums over rows under the optimal local factors.

    Attributes
    ----------
    statistics : tuple of dict
        Weighted sums of expected sufficient statistics, one for each weighting.
    evidence : float
        The local part of the bound for the first weighting, nats; for a mixture
        ``sum_n w_n ln sum_k exp(E[ln pi_k] + E[ln N(x_n | k)])``.
    local : object, default=None
        The local factors themselves, where they are found by an iteration; None where
        they have a closed form.
    """

    statistics: tuple
    evidence: float
    local: object = None
