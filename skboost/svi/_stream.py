"""Natural-gradient steps on a stream, whose length nobody knows."""

from dataclasses import dataclass

import numpy as np

from skboost.conjugate import combine, inside, natural_step, scaled
from skboost.svi._engine import noise_weights
from skboost.svi._schedules import rate_at


@dataclass(frozen=True)
class Stream:
    """What is carried from one batch to the next: q, and how much it has seen."""

    natural: dict
    weight: float
    step: int = 0
    n_groups: int = 0
    n_shrunk: int = 0
    # On the last batch, before its step, scaled up to all rows so far; nats.
    elbo: float = -np.inf

    @classmethod
    def after(cls, state, weight):
        """The stream that goes on where a fit ended, whose rows weigh so much."""
        counts = (state.step, state.n_groups, state.n_shrunk, state.elbo)
        return cls(state.natural, weight, *counts)

    def absorb(
        self,
        model,
        rows,
        weight,
        learning_rate,
        effective_batch_size,
        seed,
        total=None,
    ):
        """The stream after one more batch; without a rate nothing is forgotten."""
        # N of Algorithm 1 is the weight of all rows so far, and the rate at least the
        # batch's share of it: late batches are accumulated, row by row, and early ones
        # slowly forgotten. Where N is known (`total`) the rate is the schedule's. The
        # batch from which a stream starts is step 1; a stream of weight 0 has seen
        # nothing, and its batch makes the whole step.
        batch = float(weight.sum())
        seen, natural = self.weight + batch, self.natural
        rate = 0.0 if learning_rate is None else rate_at(learning_rate, self.step + 1)
        if total is None:
            total, rate = seen, max(rate, batch / seen)
            if self.weight:
                natural = rescaled(model, natural, seen / self.weight)
        noise = noise_weights(effective_batch_size, self.step, len(rows), seed)
        weightings = (weight,) if noise is None else (weight, weight * noise)
        expected = model.expect(natural, rows, *weightings)
        scale = total / batch
        sums = [scaled(model.temperature * scale, s) for s in expected.statistics]
        done = natural_step(model.factors, natural, sums[0], rate, *sums[1:])
        return Stream(
            done.natural,
            seen,
            self.step + 1,
            self.n_groups + done.n_groups,
            self.n_shrunk + done.n_shrunk,
            model.elbo(natural, scale * expected.evidence),
        )


def rescaled(model, natural, factor):
    """What q would be, had every row been seen `factor` times as often."""
    # Exact and proper without noise in the past; with it, each group goes only as far
    # as its domain reaches.
    moved = {}
    for part in model.factors:
        own = natural[part.name]
        more = combine(1.0 - factor, part.prior, factor, own)
        moved[part.name], _ = inside(part, own, more)
    return moved
