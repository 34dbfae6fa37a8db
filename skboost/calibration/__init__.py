"""What follows a fit: corrections of moments and tails, and what remains at most."""

from skboost.calibration._calibrate import (
    CALIBRATIONS,
    affine_map,
    calibrate,
    shrunk,
    stein_map,
)
from skboost.calibration._heavy_tailed import Pool, jointly_weighted, student_fit
from skboost.calibration._interval import (
    KLInterval,
    lower_end,
    n_chains,
    remaining_kl_interval,
)
from skboost.calibration._problem import (
    Calibration,
    Declined,
    Problem,
    allowed_loss,
    refusal,
)
