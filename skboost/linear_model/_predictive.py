"""What estimators predict with: a plain model of `skboost.serving`, and its mixture.

Probabilities, means and standard deviations are those of the plain model, the lines
that exported files run. What stands here and in the modules of one kind of model adds
intervals, densities, entropies and logarithms. Where no quadrature serves, fixed
quasi-random draws of the posterior are taken, the same at every call.
"""

import numpy as np
from scipy import sparse

from skboost._math import log_sum_exp
from skboost.serving import DrawsPart, GaussianPart, LaplacePart, StudentTPart
from skboost.targets import student_t_radii

# Draws of the posterior where no quadrature serves.
N_DRAWS = 1024


def with_ones(X):
    """Rows with a column of ones."""
    ones = np.ones((X.shape[0], 1))
    if sparse.issparse(X):
        return sparse.hstack([X, ones], format="csr")
    return np.hstack([X, ones])


def plain_rows(X, fit_intercept):
    """Rows as plain models take them: sparse ones have their column of ones."""
    return with_ones(X) if fit_intercept and sparse.issparse(X) else X


def offset_rows(X, fit_intercept, offset):
    """Rows as plain models with offsets take them: ones, then the offset, come last."""
    X = with_ones(X) if fit_intercept else X
    if sparse.issparse(X):
        return sparse.hstack([X, offset[:, None]], format="csr")
    return np.column_stack([X, offset])


def posterior_draws(mixture):
    """Fixed quasi-random draws of a mixture, (n, dim)."""
    return mixture.sample(N_DRAWS, np.random.default_rng(0))


def mixture_parts(mixture, some=slice(None)):
    """Weights and parts of a plain model, of some coordinates of a mixture."""
    parts = [part_of(component, some) for component in mixture.components]
    return mixture.weights, tuple(parts)


def part_of(component, some=slice(None)):
    """A component, of some coordinates, as a part of a plain model."""
    family = component.family
    if family.distribution in ("gaussian", "student_t"):
        # Location and scale of the latter are laid out as moments of a Gaussian.
        mean, variance, factor = component.structure()
        gaussian = GaussianPart(
            mean[some],
            None if variance is None else variance[some],
            None if factor is None else np.ascontiguousarray(factor[some]),
        )
        if family.distribution == "gaussian":
            return gaussian
        df = float(family.df)
        return StudentTPart(gaussian, df, *student_t_radii(df))
    mean, std = component.mean()[some], component.std()[some]
    if family.distribution == "laplace":
        return LaplacePart(mean, std / np.sqrt(2.0))
    draws = component.sample(N_DRAWS, np.random.default_rng(0))
    return DrawsPart(draws[:, some], mean, std**2)


class Predictive:
    """Predictive quantities of a model with one linear predictor for each row.

    `mixture` is that of which the plain `model` was made; None will do where its parts
    are Gaussian.
    """

    # Whether the last column of rows is their offset.
    shifted = False

    def __init__(self, model, mixture=None):
        self.model, self.mixture = model, mixture

    @property
    def gaussian(self):
        """Whether every part has Gaussian linear predictors."""
        return all(isinstance(part, GaussianPart) for part in self.model.parts)

    def with_offset(self):
        """The same of rows whose last column is added to their linear predictors."""
        raise ValueError(
            "offset must be None for more than two classes, and for ordered ones; got "
            f"one for {len(self.model.classes)} classes."
        )

    def latent(self, X):
        """Mean and standard deviation of the linear predictor, (n,) each."""
        return self.model.latent(X)


def mixture_log_density(noise, x, centres, scales, weights):
    """``ln sum_k weights_k noise((x - centre_k) / scale_k) / scale_k``, (n,)."""
    table = noise.log_density((x[:, None] - centres) / scales) - np.log(scales)
    return log_sum_exp(table, np.log(weights))


def mixture_quantiles(noise, centres, scales, weights, p):
    """Quantiles of ``sum_k weights_k noise((x - centre_k) / scale_k)``, (n, n_levels).

    By Newton steps, safeguarded by a bracket; `p` is (n_levels,) or (n, n_levels).
    """
    scales = np.maximum(scales, 1e-300)
    # The quantile of a mixture lies between those of its components.
    ends = centres[:, :, None] + scales[:, :, None] * noise.quantile(p)[..., None, :]
    low, high = ends.min(axis=1), ends.max(axis=1)
    x = np.einsum("k,nkp->np", weights, ends)
    # Each step halves the bracket where Newton's does not stay inside.
    for _ in range(60):
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
        if np.all(moved <= 1e-12 * np.maximum(np.abs(x), scales.min(axis=1)[:, None])):
            break
    return x
