"""Moments of a mixture of conjugate distributions, from those of its components."""

import numpy as np


def moments(model, components, weights):
    """Means and variances of every parameter; inf or NaN where there are none.

    Parameters
    ----------
    model : GaussianMixtureModel
    components : list of dict
        Natural parameters.
    weights : ndarray of shape (n_components,)
        Of the components.

    Returns
    -------
    dict of str to pair of ndarray
        By the names of draws. Of weights and means the second is a covariance, with
        twice the axes.
    """
    found = [model.moments(natural) for natural in components]
    combined = {}
    for name in found[0]:
        pairs = [parts[name] for parts in found]
        means, spreads = (np.array(values) for values in zip(*pairs, strict=True))
        if name == "means":
            spreads = np.array([_blocks(own) for own in spreads])
        combined[name] = _mixed(means, spreads, weights)
    return combined


def standard_deviations(combined):
    """Square roots of the variances in what `moments` returns, by the same names."""
    found = {}
    for name, (mean, spread) in combined.items():
        if np.ndim(spread) > np.ndim(mean):
            size = np.size(mean)
            spread = np.diagonal(spread.reshape(size, size)).reshape(np.shape(mean))
        found[name] = np.sqrt(spread)
    return found


def _mixed(means, spreads, weights):
    """Mean and variance, or covariance, of a mixture."""
    with np.errstate(invalid="ignore"):
        mean = np.tensordot(weights, means, 1)
        away = means - mean
        if spreads.ndim > means.ndim:
            ones = (1,) * (means.ndim - 1)
            left = away.reshape(*away.shape, *ones)
            away = left * away.reshape(len(away), *ones, *means.shape[1:])
        else:
            away = away**2
        return mean, np.tensordot(weights, spreads + away, 1)


def _blocks(covariances):
    """Covariances of independent clusters (k, d, d) as one array (k, d, k, d)."""
    k, dim = covariances.shape[:2]
    whole = np.zeros((k, dim, k, dim))
    whole[np.arange(k), :, np.arange(k), :] = covariances
    return whole
