"""Learning rates and effective batch sizes as functions of the step, counted from 1."""

from abc import ABC, abstractmethod
from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator


class LearningRate(BaseEstimator, ABC):
    """Weight of the newest natural parameters at each step."""

    # Whether every rate is 1, so that steps on all rows are coordinate ascent.
    full = False

    @abstractmethod
    def at(self, step):
        """The rate of a step, counted from 1, in (0, 1]."""


class ConstantRate(LearningRate):
    """The same rate at every step.

    Parameters
    ----------
    rate : float, default=1.0
        In (0, 1]; 1 with all rows is coordinate ascent.

    Examples
    --------
    >>> from skboost.strategies import ConstantRate
    >>> [ConstantRate(0.3).at(step) for step in (1, 10, 100)]
    [0.3, 0.3, 0.3]
    """

    def __init__(self, rate=1.0):
        self.rate = rate

    @property
    def full(self):
        """Whether the rate is 1."""
        return self.rate == 1.0

    def at(self, step):
        return self.rate


class RobbinsMonro(LearningRate):
    """``(delay + step) ** -forgetting`` at a step counted from 1.

    Parameters
    ----------
    delay : float, default=1.0
        At least 0: larger slows the first steps down.
    forgetting : float, default=0.7
        In (0.5, 1]: the sum of the rates diverges, that of their squares does not
        (Robbins and Monro 1951; Paisley et al., section II-B).

    Examples
    --------
    >>> from skboost.strategies import RobbinsMonro
    >>> [round(RobbinsMonro(delay=9.0).at(step), 2) for step in (1, 91)]
    [0.2, 0.04]
    """

    def __init__(self, delay=1.0, forgetting=0.7):
        self.delay = delay
        self.forgetting = forgetting

    def at(self, step):
        if not (isinstance(self.delay, Real) and self.delay >= 0.0):
            raise ValueError(
                f"delay must be a number of at least 0; got {self.delay!r}."
            )
        return float((self.delay + step) ** -self.forgetting)


class PerEmbedding(BaseEstimator):
    """An effective batch size of every row and of every column of a matrix.

    ``effective_batch_size=PerEmbedding(size)`` of `SVIMatrixFactorization` gives the
    statistics of each embedding the noise of batches of `size` of *its* entries, and
    none where it has no more (the statistics of Paisley et al., equation 26, are those
    of one row); a number instead counts the entries of the whole matrix. What all
    entries share, such as the scale of the noise, is learned without noise. For
    reproducing the paper.

    Parameters
    ----------
    size : float or callable
        Positive; a callable takes the step, counted from 1.

    Examples
    --------
    >>> from skboost import SVIMatrixFactorization
    >>> from skboost.strategies import PerEmbedding
    >>> noisy = PerEmbedding(lambda step: 50 * step)
    >>> noisy(3)
    150
    >>> model = SVIMatrixFactorization(2, effective_batch_size=noisy)
    """

    def __init__(self, size):
        self.size = size

    def __call__(self, step):
        return self.size(step) if callable(self.size) else self.size


LEARNING_RATES = {"constant": ConstantRate, "robbins-monro": RobbinsMonro}


def as_learning_rate(learning_rate):
    """A `LearningRate` from a number, a name, or itself, whose rates are in (0, 1]."""
    if isinstance(learning_rate, str):
        made = LEARNING_RATES[learning_rate]()
    elif isinstance(learning_rate, Real):
        made = ConstantRate(float(learning_rate))
    else:
        made = learning_rate
    for step in (1, 1_000_000):
        rate_at(made, step)
    return made


def rate_at(learning_rate, step):
    """Rate of a step counted from 1, or a ValueError where it leaves (0, 1]."""
    rate = learning_rate.at(step)
    if not (isinstance(rate, Real) and 0.0 < rate <= 1.0):
        raise ValueError(
            f"learning_rate must give rates in (0, 1]; got {rate!r} at step {step}."
        )
    return rate


def effective_size(effective_batch_size, step, batch_size):
    """M of a step: at most the batch's own size, where there is no noise."""
    if effective_batch_size is None:
        return float(batch_size)
    size = effective_batch_size
    if callable(size):
        size = size(step)
        if not (isinstance(size, Real) and np.isfinite(size) and size > 0):
            raise ValueError(
                "effective_batch_size must return positive numbers; got "
                f"{size!r} at step {step}."
            )
    return min(float(size), float(batch_size))
