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
    cumulative = np.cumsum(draws["weights"], axis=1)
    labels = (rng.random((n, 1)) > cumulative).sum(axis=1)
    labels = np.minimum(labels, model.n_components - 1)
    normal = rng.standard_normal((n, model.n_components, model.dim))
    noise = model.clusters.covariance.noise(draws["precisions"], normal)
    each = np.arange(n)
    return draws["means"][each, labels] + noise[each, labels], labels
