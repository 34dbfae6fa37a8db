"""What the mixture lacks, as far as probes outside of it can see."""

from typing import NamedTuple

import numpy as np

from skboost._math import N_ERRORS
from skboost._random import SCOUT, generator

# Draws around a mode by which its mass is estimated.
_N_DRAWS = 256
# A mode is outside if the mixture has less than that share of the mass around it.
_COVERED = 0.1
# Log of a ratio that is infinite for all that a share says, and can be squared.
_LARGEST = 300.0


class MissedMode(NamedTuple):
    """A mode that the mixture lacks.

    Attributes
    ----------
    location : ndarray of shape (dim,)
    mass : float
        Share of the posterior around it, estimated.
    """

    location: np.ndarray
    mass: float


def missed_modes(search, mixture, modes, log_evidence, *key):
    """Modes outside a mixture with more than ``tol`` of the mass, heaviest first.

    The mass of a mode is estimated by importance sampling from its Laplace
    approximation: its height, or Laplace's own formula, say little of modes that are no
    ellipses.

    Parameters
    ----------
    search : ModeSearch
    mixture : Mixture
    modes : Modes
        All that are known.
    log_evidence : float
        Of the part of the posterior that the mixture reaches, nats.
    *key : int
        Name the random stream.

    Returns
    -------
    list of MissedMode
    """
    if not np.isfinite(log_evidence):
        return []
    rng = generator(search.settings.seed, SCOUT, *key, 1)
    candidates = modes.heaviest(len(modes.params))
    mass = np.array(
        [_mass_outside(search, mixture, p, log_evidence, rng) for p in candidates]
    )
    share = mass / (1.0 + mass.sum())
    # A mixture without that share of the mass has KL(q || p) as large as it.
    return [
        MissedMode(search.family.location(candidates[k]), float(share[k]))
        for k in np.argsort(-share, kind="stable")
        if share[k] > search.settings.tol
    ]


def _mass_outside(search, mixture, params, log_evidence, rng):
    """Mass around a mode, in units of what is reached; 0 where that has some of it."""
    family, target = search.family, search.target
    theta = family.transport(params, family.base_draws(_N_DRAWS, mixture.dim, rng))
    log_s = family.log_density(theta, params)
    log_q = mixture.log_density(theta) - log_s
    ratio = target.log_density(theta) - log_evidence - log_s
    with np.errstate(over="ignore"):
        there, covered = np.exp(np.minimum(ratio, _LARGEST)), np.exp(log_q).mean()
    mass = there.mean() - N_ERRORS * there.std() / np.sqrt(_N_DRAWS)
    return float(mass) if mass > 0.0 and covered < _COVERED * mass else 0.0
