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

from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from skboost._random import generator
from skboost.conjugate import combine, inside, natural_step, prior_of, scaled
from skboost.svi._schedules import PerEmbedding, effective_size, rate_at

# Streams of one step.
_BATCH, _NOISE = 0, 1


@dataclass(frozen=True)
class SVIState:
    """Everything that the next step needs, and the bound without noise."""

    natural: dict
    # Of all rows so far.
    weight: float = 0.0
    step: int = 0
    epoch: int = 0
    # In a stream on the last batch, scaled up to all rows so far; nats.
    elbo: float = -np.inf
    # Groups of natural parameters that got noise, and of which it had to be shrunk.
    n_groups: int = 0
    n_shrunk: int = 0
    # With all rows as the batch, the `Expectation` of the next step.
    ahead: object = None
    # Local factors, found by an iteration, than which `ahead` does no worse.
    local: object = None


@dataclass(frozen=True)
class SVIInfo:
    """Report of one epoch, whose rate and effective size are those of its last step."""

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
    """Centred normal weights of rows of a step, with variance |S| / M - 1, or None."""
    variance = size / effective_size(effective_batch_size, n_done + 1, size) - 1.0
    if variance <= 0.0:
        return None
    draws = generator(seed, n_done, _NOISE).standard_normal(size)
    return np.sqrt(variance) * (draws - draws.mean())


def noise_of(effective_batch_size, n_done, rows, seed):
    """Those of all rows, or of the entries by row and by column of a matrix."""
    if not isinstance(effective_batch_size, PerEmbedding):
        return noise_weights(effective_batch_size, n_done, len(rows), seed)
    if not hasattr(rows, "noise"):
        raise ValueError(
            "effective_batch_size=PerEmbedding(...) is of the rows and columns of a "
            "matrix that SVIMatrixFactorization factorises; others take a number or a "
            "callable."
        )
    size = effective_size(effective_batch_size, n_done + 1, np.inf)
    return rows.noise(size, generator(seed, n_done, _NOISE))


@dataclass(frozen=True)
class NaturalGradient:
    """Stochastic variational inference with tuneable annealing (Paisley et al.,
    Algorithm 1).

    An epoch is as many steps as batches fit into the rows, each drawn without
    replacement. With all rows, a rate of 1 and no noise a step is a round of coordinate
    ascent.
    """

    model: object
    rows: object
    start: dict
    learning_rate: object
    weight: np.ndarray | None = None
    # |S|; None, or more than there are, is all rows.
    batch_size: int | None = None
    # M, or a function of the step from 1: the noise is that of batches of this size.
    effective_batch_size: object = None
    seed: int = 0
    # Positions of rows by which the bound is estimated where batches are not all rows,
    # and how many times their evidence is that of all; None is all rows.
    bound_rows: np.ndarray | None = None
    bound_scale: float = 1.0

    @property
    def initial(self):
        """The state before the first epoch."""
        return SVIState(self.start)

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

    def resumed(self, state):
        """The state of a run that goes on, and whether its rows are these, by the
        bound."""
        if not self.whole or state.elbo == -np.inf:
            return state, True
        again = self._looked_ahead(state)
        if np.isclose(again.elbo, state.elbo, rtol=1e-9, atol=0.0):
            return again, True
        return self._looked_ahead(replace(state, local=None)), False

    def step(self, state, budget=None):
        """One epoch, or as many of its batches as a budget of seconds has room for."""
        began, state = perf_counter(), self._looked_ahead(state)
        before = state
        for _ in range(-(-len(self.rows) // self.size)):
            state = self.advance(state)
            if budget is not None and budget.spent:
                break
        state = replace(
            state,
            weight=self.total_weight,
            epoch=state.epoch + 1,
            elbo=self.elbo(state),
        )
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
        expected = state.ahead
        if expected is None:
            expected = self._expect(state.natural, state.step)
        scale = self.model.temperature * len(self.rows) / self.size
        sums = [scaled(scale, total) for total in expected.statistics]
        rate = rate_at(self.learning_rate, state.step + 1)
        done = natural_step(self.model.factors, state.natural, sums[0], rate, *sums[1:])
        after, local = state.step + 1, expected.local if self.monotone else None
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
        if self.bound_rows is not None:
            rows, scale = rows[self.bound_rows], self.bound_scale
            weight = None if weight is None else weight[self.bound_rows]
        expected = self.model.expect(state.natural, rows, weight)
        return self.model.elbo(state.natural, scale * expected.evidence)

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
        noise = noise_of(self.effective_batch_size, n_done, rows, self.seed)
        if noise is not None:
            weightings.append(noise if weight is None else scaled(weight, noise))
        return self.model.expect(natural, rows, *weightings, **going_on)

    def _rows_at(self, batch):
        """Rows at positions, and their weights."""
        weight = None if self.weight is None else self.weight[batch]
        return self.rows[batch], weight


# --- steps on a stream, whose length nobody knows


def absorb(
    state, model, rows, weight, learning_rate, effective_batch_size, seed, total=None
):
    """The `SVIState` after one more batch, with the bound on it before its step."""
    # N of Algorithm 1 is the weight of all rows so far, and the rate at least the
    # batch's share of it: late batches are accumulated, row by row, and early ones
    # slowly forgotten. Where N is known (`total`) the rate is the schedule's. The
    # batch from which a stream starts is step 1; a stream of weight 0 has seen
    # nothing, and its batch makes the whole step.
    batch = float(weight.sum())
    seen, natural = state.weight + batch, state.natural
    rate = rate_at(learning_rate, state.step + 1)
    if total is None:
        total, rate = seen, max(rate, batch / seen)
        if state.weight:
            natural = rescaled(model, natural, seen / state.weight)
    noise = noise_of(effective_batch_size, state.step, rows, seed)
    weightings = (weight,) if noise is None else (weight, weight * noise)
    expected = model.expect(natural, rows, *weightings)
    scale = total / batch
    sums = [scaled(model.temperature * scale, s) for s in expected.statistics]
    done = natural_step(model.factors, natural, sums[0], rate, *sums[1:])
    return SVIState(
        done.natural,
        weight=seen,
        step=state.step + 1,
        n_groups=state.n_groups + done.n_groups,
        n_shrunk=state.n_shrunk + done.n_shrunk,
        elbo=model.elbo(natural, scale * expected.evidence),
    )


def rescaled(model, natural, factor):
    """What q would be, had every row been seen `factor` times as often."""
    # Exact and proper without noise in the past; with it, each group goes only as far
    # as its domain reaches.
    moved = {}
    for part in model.factors:
        own = natural[part.name]
        more = combine(1.0 - factor, prior_of(part, natural), factor, own)
        moved[part.name], _ = inside(part, own, more)
    return moved
