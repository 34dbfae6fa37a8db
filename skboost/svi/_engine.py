"""Natural-gradient steps for conjugate exponential-family models (SVI and SVI+).

A model is anything with

- ``factors``: the blocks of q, as `skboost.conjugate.natural_step` takes them;
- ``temperature``: power of the likelihood;
- ``expect(natural, rows, *weightings)``: expected statistics of rows under the optimal
  local factors, one sum for each weighting (linear in it), and the ``evidence`` of the
  first, the local part of the bound;
- ``elbo(natural, evidence)``.

A model that finds its local factors by iteration returns them as ``local`` of the
expectation, and takes them by that keyword to do no worse than they: in coordinate
ascent they are kept from step to step, so that it never loses ground.

Rows are anything with a length that positions select from. The unit that carries the
noise is the row: a data point of a mixture, a document of a topic model, an observed
entry of a matrix.
"""

from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np

from skboost._budget import Budget, End
from skboost._random import generator
from skboost.conjugate import natural_step, scaled
from skboost.svi._schedules import effective_size, rate_at

# Streams of one step.
_BATCH, _NOISE = 0, 1


@dataclass(frozen=True)
class SVIState:
    """Everything that the next step needs.

    Attributes
    ----------
    natural : dict
        Natural parameters of q.
    step : int
        Steps done.
    epoch : int
        Epochs done.
    elbo : float
        Of `natural` on all rows, or estimated from those that are watched, without
        noise, nats.
    n_groups, n_shrunk : int
        Groups of natural parameters that got noise so far, and of which the noise had
        to be shrunk.
    ahead : Expectation or None
        With all rows as the batch: what the next step needs and the bound needed.
    local : object, default=None
        Of a model that finds local factors by iteration: those than which `ahead`
        does no worse.
    """

    natural: dict
    step: int = 0
    epoch: int = 0
    elbo: float = -np.inf
    n_groups: int = 0
    n_shrunk: int = 0
    ahead: object = None
    local: object = None

    @property
    def stage(self):
        """Nothing but the last state is kept."""
        return None


@dataclass(frozen=True)
class SVIInfo:
    """Report of one epoch.

    Attributes
    ----------
    iteration : int
        Epoch, counted from 1.
    n_steps : int
        Steps done so far.
    elbo, gain : float
        As in `SVIState`, and its change; nats.
    learning_rate, effective_batch_size : float
        Of the last step.
    n_groups, n_shrunk : int
        Of this epoch, as in `SVIState`.
    seconds : float
    """

    iteration: int
    n_steps: int
    elbo: float
    gain: float
    learning_rate: float
    effective_batch_size: float
    n_groups: int
    n_shrunk: int
    seconds: float


def noise_weights(effective_batch_size, n_done, size, seed):
    """Centred normal weights of rows, with variance |S| / M - 1; None at zero.

    They are those of the step after `n_done` others.
    """
    variance = size / effective_size(effective_batch_size, n_done + 1, size) - 1.0
    if variance <= 0.0:
        return None
    draws = generator(seed, n_done, _NOISE).standard_normal(size)
    return np.sqrt(variance) * (draws - draws.mean())


@dataclass(frozen=True)
class NaturalGradient:
    """Stochastic variational inference with tuneable annealing.

    Paisley, Fazelnia, Barr: Stochastic Variational Inference with Tuneable Stochastic
    Annealing, Algorithm 1. An epoch is as many steps as batches fit into the rows; each
    draws its batch anew, without replacement. With all rows, a rate of 1 and no noise
    a step is one round of coordinate ascent.

    Parameters
    ----------
    model : conjugate model
    rows : rows of the model
    start : dict
        Natural parameters to start from.
    weight : ndarray of shape (n_rows,), default=None
        Weights of rows.
    learning_rate : LearningRate
    batch_size : int, default=None
        |S|; None, or more than there are, is all rows.
    effective_batch_size : float or callable, default=None
        M: the noise of batches of this size. At most `batch_size`; None is no noise.
        A callable takes the step, counted from 1.
    seed : int, default=0
    watched : ndarray of int, default=None
        Positions of the rows by which the bound is estimated where batches are not all
        rows. None evaluates all rows after every epoch.
    scale : float, default=1.0
        How many times the evidence of those rows is that of all.
    budget : Budget
        Once nothing is left of it an epoch ends after the batch under way.
    """

    model: object
    rows: object
    start: dict
    learning_rate: object
    weight: np.ndarray | None = None
    batch_size: int | None = None
    effective_batch_size: object = None
    seed: int = 0
    watched: np.ndarray | None = None
    scale: float = 1.0
    budget: Budget = field(default_factory=Budget)

    @property
    def size(self):
        """Rows in a batch."""
        n = len(self.rows)
        return n if self.batch_size is None else min(self.batch_size, n)

    @property
    def total_weight(self):
        """Weight of all rows."""
        return len(self.rows) if self.weight is None else float(self.weight.sum())

    @property
    def whole(self):
        """Whether every batch is all rows."""
        return self.size == len(self.rows)

    @property
    def monotone(self):
        """Whether no step lowers the bound: coordinate ascent."""
        quiet = self.effective_batch_size is None
        return self.whole and quiet and self.learning_rate.full

    def within(self, budget):
        """This engine with a budget."""
        return replace(self, budget=budget)

    def recomputed(self, state):
        """The bound that a state holds, and what the rows give for it now."""
        return state.elbo, self.elbo(self._looked_ahead(state))

    def last_look(self, state):
        """Coordinate ascent has nothing further to look for."""
        return None, None

    def init(self):
        """The first epoch."""
        return self.step(SVIState(self.start))

    def step(self, state):
        """One epoch.

        Returns
        -------
        state : SVIState
        info : SVIInfo
        """
        began, state = perf_counter(), self._looked_ahead(state)
        before = state
        for _ in range(-(-len(self.rows) // self.size)):
            state = self.advance(state)
            if self.budget.spent:
                break
        state = replace(state, epoch=state.epoch + 1, elbo=self.elbo(state))
        last = state.step
        return state, SVIInfo(
            iteration=state.epoch,
            n_steps=state.step,
            elbo=state.elbo,
            gain=state.elbo - before.elbo,
            learning_rate=self.learning_rate.at(last),
            effective_batch_size=effective_size(
                self.effective_batch_size, last, self.size
            ),
            n_groups=state.n_groups - before.n_groups,
            n_shrunk=state.n_shrunk - before.n_shrunk,
            seconds=perf_counter() - began,
        )

    def _looked_ahead(self, state):
        """With all rows as the batch: what this step needs, and the bound before it."""
        if not self.whole or state.ahead is not None:
            return state
        ahead = self._expect(state.natural, state.step, state.local)
        elbo = self.model.elbo(state.natural, ahead.evidence)
        return replace(state, ahead=ahead, elbo=elbo)

    def advance(self, state):
        """One step of every factor: one batch."""
        found = state.ahead
        if found is None:
            found = self._expect(state.natural, state.step)
        scale = self.model.temperature * len(self.rows) / self.size
        sums = [scaled(scale, total) for total in found.statistics]
        rate = rate_at(self.learning_rate, state.step + 1)
        done = natural_step(self.model.factors, state.natural, sums[0], rate, *sums[1:])
        after, local = state.step + 1, found.local if self.monotone else None
        return replace(
            state,
            natural=done.natural,
            step=after,
            n_groups=state.n_groups + done.n_groups,
            n_shrunk=state.n_shrunk + done.n_shrunk,
            ahead=self._expect(done.natural, after, local) if self.whole else None,
            local=local,
        )

    def elbo(self, state):
        """The bound of all rows, without noise, nats."""
        if state.ahead is not None:
            return self.model.elbo(state.natural, state.ahead.evidence)
        rows, weight, scale = self.rows, self.weight, 1.0
        if self.watched is not None:
            rows, scale = rows[self.watched], self.scale
            weight = None if weight is None else weight[self.watched]
        found = self.model.expect(state.natural, rows, weight)
        return self.model.elbo(state.natural, scale * found.evidence)

    def _expect(self, natural, n_done, local=None):
        """Expected statistics of the next step's batch, and of its noise."""
        rows, weight = self.rows, self.weight
        going_on = {}
        if not self.whole:
            rng = generator(self.seed, n_done, _BATCH)
            batch = rng.choice(len(rows), self.size, replace=False)
            rows, weight = self._rows_at(batch)
        elif self.monotone and local is not None and len(local) == len(rows):
            going_on["local"] = local
        weightings = [weight]
        noise = noise_weights(self.effective_batch_size, n_done, self.size, self.seed)
        if noise is not None:
            weightings.append(noise if weight is None else weight * noise)
        return self.model.expect(natural, rows, *weightings, **going_on)

    def _rows_at(self, batch):
        """Rows at positions, and their weights."""
        weight = None if self.weight is None else self.weight[batch]
        return self.rows[batch], weight


@dataclass(frozen=True)
class SVILimits:
    """When a run of epochs ends.

    Parameters
    ----------
    max_iter : int
        Epochs.
    tol : float
        Gain in ELBO per epoch, nats, below which coordinate ascent has converged.
        Stochastic steps go on up to `max_iter`.
    max_time : float or None
        Seconds.
    began : float or None
        When they began to count, by ``time.perf_counter``; None is when a run begins.
    before : int
        Epochs that `max_iter` does not count.
    """

    max_iter: int
    tol: float = 1e-3
    max_time: float | None = None
    began: float | None = None
    before: int = 0

    def after(self, previous):
        """Those of a run that goes on: as many more where it has `max_iter` epochs."""
        done = 0 if previous is None else previous.n_iter
        return replace(self, before=done) if done >= self.max_iter else self

    def reached(self, engine, history):
        """The `End` of a run whose last epoch shows convergence, or None."""
        gain = history[-1].gain
        if engine.monotone and gain <= self.tol:
            message = f"Converged: the last round gained {gain:.2g} nats, within tol."
            return End("tol", message)
        return None

    def budget(self, target, clock):
        """What a run that begins now may spend, a `Budget`."""
        return Budget(self.max_time, clock=clock, began=self.began)

    def over(self, engine, history):
        """The `End` of a run that must end without convergence, or None."""
        if len(history) - self.before < self.max_iter:
            return None
        return End("max_iter", f"Stopped at max_iter={self.max_iter}.")
