"""Natural-gradient steps on a stream, whose length nobody knows."""

from skboost.conjugate import combine, inside, natural_step, scaled
from skboost.svi._engine import SVIState, noise_weights
from skboost.svi._schedules import rate_at


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
    noise = noise_weights(effective_batch_size, state.step, len(rows), seed)
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
        more = combine(1.0 - factor, part.prior, factor, own)
        moved[part.name], _ = inside(part, own, more)
    return moved
