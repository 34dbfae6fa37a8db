"""Proposals: where a run begins, and one more component for what a mixture lacks."""

from skboost.proposals._base import Proposer
from skboost.proposals._conjugate import ConjugateProposer
from skboost.proposals._density import DensityProposer, UpdateProposer
from skboost.proposals._factors import FACTOR_PROPOSERS, factor_proposer
from skboost.proposals._first import usable_starts
from skboost.proposals._gaussian import fit_low_rank, natural_gaussian, widest
from skboost.proposals._greedy import best_stop, skew_direction, split_component
from skboost.proposals._propagated import PropagatedProposer, left_out, propagates
from skboost.proposals._scales import LITTLE_LEFT, ScaleProposer, target_given
from skboost.proposals._stochastic import (
    ElementwiseMixture,
    GreedySearch,
    StochasticProposer,
    StochasticSearch,
)
