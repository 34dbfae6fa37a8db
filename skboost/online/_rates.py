"""Learning rates of online inference: positive numbers, not bounded by 1."""

from numbers import Real

import numpy as np

from skboost.svi import ConstantRate, LearningRate


class PowerRate(LearningRate):
    """``rate * step ** power`` at a step counted from 1.

    Parameters
    ----------
    rate : float, default=1.0
        Rate of the first step, positive.
    power : float, default=-0.5
        -0.5 is the rate of the regret bounds of order sqrt(T); 1 lets the
        natural-gradient method keep what it has learned.
    """

    def __init__(self, rate=1.0, power=-0.5):
        self.rate = rate
        self.power = power

    def at(self, step):
        return self.rate * float(step) ** self.power


def rates_of(learning_rate, done, n):
    """Rates of `n` steps after `done` steps, checked, shape (n,).

    Parameters
    ----------
    learning_rate : float or LearningRate
    done, n : int

    Raises
    ------
    ValueError
        If a rate is not positive.
    """
    if isinstance(learning_rate, ConstantRate):
        learning_rate = learning_rate.rate
    if isinstance(learning_rate, Real):
        rates = np.full(n, float(learning_rate))
    else:
        steps = range(done + 1, done + n + 1)
        rates = np.array([learning_rate.at(step) for step in steps], dtype=float)
    wrong = np.flatnonzero(~(rates > 0.0))
    if len(wrong):
        raise ValueError(
            f"learning_rate must give positive rates; got {rates[wrong[0]]} at step "
            f"{done + wrong[0] + 1}."
        )
    return rates
