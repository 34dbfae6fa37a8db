"""Orbits after a fit: how many images, what they gain, whether they are worth it."""

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from skboost._budget import BudgetSpent
from skboost.orbits._draws import MAX_ORDER, pilot
from skboost.orbits._mixture import OrbitMixture

# What a user may ask for.
ORDERS = tuple(2**k for k in range(1, MAX_ORDER.bit_length()))
# Images at most where nothing else is asked for; of a density that is dear.
AUTO_ORDER, DEAR_ORDER = 64, 4
# Draws by which orders are decided, and evaluations that moments rest on at least: of
# few images many draws are affordable. The error of means was .001 standard deviations
# for a nearly Gaussian posterior and .005 for a skewed one; that of 1,000 draws is .03.
_N_DRAWS, _N_EVALUATIONS = 512, 8_192


@dataclass(frozen=True)
class OrbitReport:
    """What reweighting over orbits did to a posterior, or why it did nothing.

    Attributes
    ----------
    gain, gain_se : float
        ELBO after less ELBO before, nats, from draws that nothing was fitted to, and
        its standard error. With several components a lower bound of the gain. NaN
        where nothing was measured.
    order : int
        Images of a point under the component that has most of them.
    n_evaluations : int
        Evaluations of the density behind it.
    remaining : float
        Nats that remain by the same draws; NaN where nothing was measured.
    reason : str
        Why it was declined; empty where it was applied.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from skboost import BoostedBayesianLogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BoostedBayesianLogisticRegression(random_state=0)
    >>> bool(model.fit(X[:60, :4], y[:60]).orbiting_.gain > 0)
    True
    """

    gain: float = float("nan")
    gain_se: float = float("nan")
    order: int = 1
    n_evaluations: int = 0
    remaining: float = float("nan")
    reason: str = ""

    @property
    def applied(self):
        """Whether the posterior is the reweighted one."""
        return not self.reason


def most_images(order):
    """The largest order that the parameter `orbit` allows; one where it is None."""
    return {"auto": AUTO_ORDER, None: 1}.get(order, order)


def reweighted(target, mixture, order, tol, least, rng, known=None):
    """A mixture reweighted over orbits, where that gains more than `least` nats.

    Orbits have `order` images, or are doubled to `tol`; `known` ones serve again. With
    it come an `OrbitReport` and `RemainingKL`, None where it was declined.
    """
    auto, orbits = order == "auto", known
    if not (auto and known and known.mixture.equals(mixture.drop_zero_weights())):
        orbits = pilot(target, mixture, _N_DRAWS, rng)
    if orbits is None:
        return mixture, OrbitReport(reason="its components are not symmetric."), None
    enough = tol if auto else -np.inf
    orbits = orbits.doubled_until(target, enough, most_images(order), not auto)
    remaining = orbits.remaining()
    if np.isneginf(orbits.values).any():
        reason = "the density is zero at draws of the posterior and all their images."
    elif not orbits.gains_more_than(least):
        reason = f"it gains no more than {least:g} nats beyond its noise."
    else:
        n = max(_N_DRAWS, _N_EVALUATIONS // int(orbits.orders.max()))
        with suppress(BudgetSpent):
            orbits = orbits.with_more(target, n, rng)
        reason, remaining = "", orbits.remaining()
    report = OrbitReport(
        *orbits.gain(),
        int(orbits.orders.max()),
        orbits.n_evaluations,
        remaining.value,
        reason,
    )
    if reason:
        return mixture, report, None
    return OrbitMixture.of(orbits, target), report, remaining
