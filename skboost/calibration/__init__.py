"""What remains of a fit at most."""

from skboost.calibration._interval import (
    KLInterval,
    lower_end,
    n_chains,
    remaining_kl_interval,
)
