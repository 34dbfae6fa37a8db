"""Quantiles of mixtures: one mixture for each row."""

import numpy as np

# Steps at most: each halves the bracket where Newton's does not stay inside.
_MAX_STEPS = 60
_TOL = 1e-12


def mixture_quantiles(noise, centres, scales, weights, p):
    """Quantiles of ``sum_k weights_k noise((x - centre_k) / scale_k)``.

    Parameters
    ----------
    noise : Noise
        Density, distribution function and quantiles of a standardised residual.
    centres, scales : array (n, n_parts)
    weights : array (n_parts,)
    p : array (n_levels,)
        In (0, 1).

    Returns
    -------
    array (n, n_levels)
        By Newton steps, safeguarded by a bracket.
    """
    scales = np.maximum(scales, 1e-300)
    # The quantile of a mixture lies between those of its components.
    ends = centres[:, :, None] + scales[:, :, None] * noise.quantile(p)
    low, high = ends.min(axis=1), ends.max(axis=1)
    x = np.einsum("k,nkp->np", weights, ends)
    for _ in range(_MAX_STEPS):
        z = (x[:, None, :] - centres[:, :, None]) / scales[:, :, None]
        excess = np.einsum("k,nkp->np", weights, noise.cdf(z)) - p
        density = np.exp(noise.log_density(z)) / scales[:, :, None]
        low, high = np.where(excess < 0, x, low), np.where(excess < 0, high, x)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = excess / np.einsum("k,nkp->np", weights, density)
            new = x - step
        inside = (new >= low) & (new <= high)
        new = np.where(inside, new, 0.5 * (low + high))
        moved = np.abs(new - x)
        x = new
        if np.all(moved <= _TOL * np.maximum(np.abs(x), scales.min(axis=1)[:, None])):
            break
    return x
