"""What every greedy objective shares: the problem that a quasi-Newton solver sees."""

from typing import NamedTuple

import numpy as np


class Candidate(NamedTuple):
    """A component that a search proposes.

    Attributes
    ----------
    family, params : VariationalFamily, ndarray of shape (n_params,)
    share : float
        Weight that the search gives it.
    value : float
        Objective reached on the search's own draws, nats; flattering.
    at_limit : bool
        Whether a scale stopped at the end of its allowed range.
    """

    family: object
    params: np.ndarray
    share: float
    value: float
    at_limit: bool


class Residual(NamedTuple):
    """What a greedy objective needs to know about the run.

    Attributes
    ----------
    target : Target
    rest : Rest
        The mixture so far, with draws for expectations under it.
    iteration : int
        Counted from 0, the first component.
    exact : bool
        Whether Gaussian expectations of the log joint are exact.
    leads : tuple of ndarray
        Components worth trying whatever the mixture says.
    """

    target: object
    rest: object
    iteration: int
    exact: bool
    leads: tuple = ()
