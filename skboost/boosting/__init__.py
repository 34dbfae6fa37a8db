"""The engine: ``init`` and ``step`` of boosting variational inference."""

from skboost._settings import Settings
from skboost.boosting._convergence import TOL, allowed_kl, judge_remaining
from skboost.boosting._engine import Boosting
from skboost.boosting._lattice import Lattice, LatticeBoosting
from skboost.boosting._nodes import advance, open_run
from skboost.boosting._per_scale import BoostingPerScale
from skboost.boosting._root_combination import RootCombination
from skboost.boosting._rounds import judged_draws, log_proposal
from skboost.boosting._simplex import SimplexCombination, SimplexIterate
from skboost.boosting._stand_in import fit_surrogate, least_known
from skboost.boosting._state import Awaited, Combination, Facts, Info, Move, recomputed
from skboost.boosting._surrogate import SurrogateBoosting
from skboost.boosting._weighted import WeightedBoosting

# How components are combined, by the name that an objective gives.
COMBINATIONS = {"simplex": SimplexCombination, "roots": RootCombination}
