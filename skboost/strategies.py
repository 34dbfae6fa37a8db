"""Strategy objects: objectives and step sizes of boosting, learning rates."""

from skboost.frank_wolfe import (
    AdaptiveBacktracking,
    Constant,
    LineSearch,
    Predefined,
    Step,
    StepSize,
    StochasticLineSearch,
)
from skboost.objectives import JointGain, Objective, ResidualGain, RootGain
from skboost.online import PowerRate
from skboost.proposals import GreedySearch, StochasticSearch
from skboost.svi import ConstantRate, LearningRate, PerEmbedding, RobbinsMonro

__all__ = [
    "AdaptiveBacktracking",
    "Constant",
    "ConstantRate",
    "GreedySearch",
    "JointGain",
    "LearningRate",
    "LineSearch",
    "Objective",
    "PerEmbedding",
    "PowerRate",
    "Predefined",
    "ResidualGain",
    "RobbinsMonro",
    "RootGain",
    "Step",
    "StepSize",
    "StochasticLineSearch",
    "StochasticSearch",
]
