"""Gibbs sampling of mixtures: many chains at once, hyperparameters included."""

import numpy as np

from skboost._math import responsibilities
from skboost.conjugate.gaussian_mixture._ascent import aligned_to, split
from skboost.conjugate.gaussian_mixture._family import log_parts
from skboost.conjugate.gaussian_mixture._weights import log_gammas


def gibbs_sweep(target, draws, rng):
    """One sweep of chains: hyperparameters, assignments of rows, then clusters.

    Gives new weights, means and precisions (n_chains, ...), the natural parameters that
    they are from, and how often rows are in clusters (n_rows, n_chains, n_components).
    """
    model, rows = target.model, target.rows
    n_chains, n_components = draws["weights"].shape
    joint = log_parts(model, draws, rows)
    shares, _ = responsibilities(joint.reshape(-1, n_components))
    shares = shares.reshape(joint.shape)
    # A row of weight two stands twice, perhaps in two clusters.
    counts = rng.multinomial(target.weight.astype(int)[:, None], shares)
    centred = draws | {"means": draws["means"] - model.center}
    all_chains = target.all_priors.drawn(centred, rng).model()
    resp = counts.reshape(len(counts), -1).astype(float)
    gaussians = all_chains.clusters.gaussians(all_chains.prior)
    statistics = all_chains.statistics(rows, resp, gaussians)
    natural = all_chains.updated(all_chains.prior, statistics)
    (clusters,) = all_chains.clusters.factors
    drawn = clusters.sample(natural[clusters.name], 1, rng)
    drawn = {
        name: values.reshape(n_chains, -1, *values.shape[2:])
        for name, values in drawn.items()
    }
    drawn["means"] = drawn["means"] + model.center
    log_gamma = log_gammas(natural["weights"]["alpha"], 1, rng)
    drawn["weights"], _ = responsibilities(log_gamma.reshape(n_chains, -1))
    return drawn, split(natural, n_chains), counts


def gibbs_naturals(target, starts, n_sweeps, n_burn_in, every, rng):
    """Conditionals of the parameters along chains, every so many sweeps after the
    burn-in."""
    model, found = target.model, []
    reference = model.responsibilities(starts[0], target.rows)
    reference = reference * target.weight[:, None]
    drawn = [model.sample(natural, 1, rng) for natural in starts]
    draws = {
        name: np.concatenate([one[name] for one in drawn])
        for name in ("weights", "means", "precisions")
    }
    for sweep in range(n_sweeps):
        draws, naturals, counts = gibbs_sweep(target, draws, rng)
        if sweep < n_burn_in or (sweep - n_burn_in) % every:
            continue
        for chain, natural in enumerate(naturals):
            order = aligned_to(reference.T @ counts[:, chain])
            found.append(model.permuted(natural, order))
    return found
