"""The way of every fit: prepare, boost, correct, report."""

from skboost.fitting._boost import (
    FunctionObserver,
    Observer,
    Options,
    RunInterrupted,
    boost,
)
from skboost.fitting._checkpoint import Checkpoint, CheckpointWarning, RunKeeper
from skboost.fitting._engines import (
    BOOSTING_CONSTRAINTS,
    INIT,
    make_engine,
    make_limits,
    make_settings,
    with_search,
)
from skboost.fitting._estimator import (
    BoostedEstimator,
    FittingEstimator,
    callback_data,
    row_weights,
    warn_of_weights,
)
from skboost.fitting._fit import Fit, FromFit
from skboost.fitting._judgement import DensityError
from skboost.fitting._messages import (
    in_cross_validation,
    warn_unfinished,
    warn_where_called,
)
from skboost.fitting._natural_gradients import (
    START,
    SVI_CONSTRAINTS,
    SVIEstimator,
    check_same_model,
)
from skboost.fitting._result import (
    GOES_ON,
    BoostingResult,
    FitInterrupted,
    run_of,
    seed_of,
)
from skboost.fitting._stopping import Limits, why_stop
