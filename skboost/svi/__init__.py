"""Natural-gradient steps for conjugate models: SVI and SVI+, and their schedules."""

from skboost.svi._engine import NaturalGradient, SVIState, absorb, noise_weights
from skboost.svi._run import SVILimits, run, why_stop
from skboost.svi._schedules import (
    LEARNING_RATES,
    ConstantRate,
    LearningRate,
    PerEmbedding,
    RobbinsMonro,
    as_learning_rate,
    effective_size,
)
