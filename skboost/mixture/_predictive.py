"""What a posterior over Gaussian mixtures says about rows: closed forms."""

import numpy as np

from skboost._math import log_sum_exp, log_weights
from skboost._parallel import row_blocks


def log_joint_clusters(posterior, rows):
    """``ln p(x_n, z_n = k | data)``, parameters integrated out, nats.

    The weighted sum, over boosting components, of expected weights times Student-t
    densities.

    Parameters
    ----------
    posterior : ConjugateMixturePosterior
    rows : Rows

    Returns
    -------
    ndarray of shape (n_rows, n_clusters)
    """
    model, components = posterior.model, posterior.components
    log_alpha = log_weights(posterior.weights)
    found = np.empty((len(rows), model.n_components))
    for block in row_blocks(len(rows), model.n_components * len(components)):
        parts = [model.predictive_parts(own, rows[block]) for own in components]
        stacked = np.moveaxis(np.array(parts), 0, -1)
        flat = log_sum_exp(stacked.reshape(-1, len(components)), log_alpha)
        found[block] = flat.reshape(-1, model.n_components)
    return found


def draw_rows(posterior, n, rng, random_state):
    """Rows of the posterior predictive distribution, each with parameters of its own.

    Returns
    -------
    X : ndarray of shape (n, n_features)
    labels : ndarray of int of shape (n,)
    """
    draws, model = posterior.sample(n, random_state), posterior.model
    draws, labels = _labelled(posterior, draws, rng)
    normal = rng.standard_normal((n, model.n_components, model.dim))
    noise = model.clusters.covariance.noise(draws["precisions"], normal)
    each = np.arange(n)
    return draws["means"][each, labels] + noise[each, labels], labels


def _labelled(posterior, draws, rng):
    """Draws with a cluster for each; new ones for those of clusters beyond the last."""
    labels, n_clusters = _clusters(draws, rng), posterior.model.n_components
    while "leftover" in draws:
        outside = np.flatnonzero(labels == n_clusters)
        if not outside.size:
            break
        again = posterior.sample(outside.size, int(rng.integers(2**31)))
        labels[outside] = _clusters(again, rng)
        for name, values in draws.items():
            values[outside] = again[name]
    # A sum of weights may be below one by rounding.
    return draws, np.minimum(labels, n_clusters - 1)


def _clusters(draws, rng):
    """A cluster for each draw, by its weights; one beyond the last for the rest."""
    cumulative = np.cumsum(draws["weights"], axis=1)
    return (rng.random((len(cumulative), 1)) > cumulative).sum(axis=1)
