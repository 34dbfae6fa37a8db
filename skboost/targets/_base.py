"""What every target offers, and whether its gradient is that of its function."""

import warnings

import numpy as np


class Target:
    """Unnormalised log posterior density on R^dim.

    Attributes
    ----------
    dim : int
        Number of parameters.
    exact_gaussian : bool
        Whether ``expected_log_density(mean, variance, factor)`` gives the exact
        expectation under a Gaussian.
    log_concave : bool
        Whether the density is known to be log-concave.
    first_guess : tuple of arrays (dim,), or None
        Mean and standard deviations of a narrow Gaussian near the mode, from which
        ascent by natural gradients begins; None is zero, and 0.1.
    proper : bool
        Whether it is known that it can be normalised: what has no end then is a prior
        that is too weak.
    light_tails : bool
        Whether results are exponentials of coordinates: under a Student-t distribution
        of these they have no mean.
    ledgers : tuple of Ledger
        What counts its evaluations and failures; that of a likelihood comes first.
    knows_curvature : bool
        Whether there is ``expected_curvature(mean, factor)``, as regressions have it.
    scale_prior : CommonScale or None
        Of coefficients whose scale is learned; there is ``at_common_scale(s)`` then.
    constraints : Constraints or None
        That map its coordinates to the scale of the user, where that is another.
    largest_coordinate : float or array (dim,)
        How far out coordinates may lie.
    portable : bool
        Whether a pickle may carry it: it holds none of the data.
    """

    exact_gaussian = False
    log_concave = False
    first_guess = None
    proper = False
    light_tails = False
    ledgers = ()
    knows_curvature = False
    scale_prior = None
    constraints = None
    largest_coordinate = np.inf
    portable = False
    dim: int

    @property
    def n_evaluations(self):
        """Draws at which it was evaluated, where these are counted."""
        return self.ledgers[0].n_evaluations if self.ledgers else 0

    @property
    def n_failures(self):
        """Draws at which that failed."""
        return sum(ledger.n_failures for ledger in self.ledgers)

    @property
    def first_failure(self):
        """What happened at the first of these; None without failures."""
        messages = (ledger.first_failure for ledger in self.ledgers)
        return next((message for message in messages if message is not None), None)

    def log_density(self, theta):
        """Log joint density of each draw.

        Parameters
        ----------
        theta : array (n_draws, dim)

        Returns
        -------
        log_density : array (n_draws,), in nats
            -inf is legal: the draw lies outside the support.
        """
        return self.value_and_score(theta)[0]

    def value_and_score(self, theta):
        """Log joint density (n_draws,) and its gradient (n_draws, dim)."""
        raise NotImplementedError(
            f"{type(self).__name__} must define value_and_score(theta)."
        )

    def tolerant(self):
        """This target as a search sees it.

        It survives points where it fails. Most targets are their own view.
        """
        return self


# Of a coordinate, or absolute below one; a right gradient agrees with one of them. Long
# ones are for functions with noise, short ones for those that bend within the others.
_STEPS = np.array([1e-3, 1e-5, 1e-9])
# Share of a difference by which a right gradient may miss it: the function bends.
_NEAR = 0.1
# Rounding of the function's values, in units of their last place.
_ROUNDING = 64.0 * np.finfo(float).eps


def warn_of_wrong_gradient(target, points, stacklevel, place=np.asarray):
    """Warn if central differences disagree with the gradient at every point.

    All points have to disagree, since one may lie at a kink. A function that is noisy
    everywhere gets the warning although its gradient may be right.

    Parameters
    ----------
    target : Target
        Of a user's function.
    points : ndarray of shape (n, dim)
    stacklevel : int
        As for `warnings.warn`.
    place : callable, default=numpy.asarray
        From the target's points to those that the user knows.
    """
    target = target.tolerant()
    value, slope = target.value_and_score(points)
    rng = np.random.default_rng(0)
    along = rng.uniform(0.5, 1.0, points.shape) * rng.choice([-1.0, 1.0], points.shape)
    along *= np.maximum(1.0, np.abs(points))
    # Of shape (steps, points), in nats.
    rises = [_rise(target, points, step * along) for step in _STEPS]
    found, rounding = (np.array(part) for part in zip(*rises, strict=True))
    promised = np.outer(_STEPS, 2.0 * (slope * along).sum(axis=1))
    largest = np.maximum(np.abs(found), np.abs(promised))
    # Where the gradient fails a search says how.
    telling = (_NEAR * largest > rounding) & np.isfinite(value)
    right = telling & (np.abs(found - promised) <= _NEAR * largest + rounding)
    known = telling.any(axis=0)
    if not known.any() or right.any(axis=0)[known].any():
        return
    point = int(known.argmax())
    step = int(telling[:, point].argmax())
    length = 2.0 * _STEPS[step] * np.linalg.norm(along[point])
    theta = place(points)[point]
    warnings.warn(
        f"The gradient of log_density is not its slope at any of {known.sum()} points "
        f"where it was tried: along one direction at theta={theta} the density "
        f"rises by {found[step, point] / length:.4g} nats a unit, and the gradient "
        f"says {promised[step, point] / length:.4g}. Check the sign and the factors of "
        "gradient=; without it, that all of the density goes through autograd.numpy.",
        UserWarning,
        stacklevel=stacklevel,
    )


def _rise(target, points, step):
    """What the log density rises by over two steps, and how well that is known."""
    up, down = target.log_density(points + step), target.log_density(points - step)
    rounding = _ROUNDING * np.maximum(np.abs(up), np.abs(down))
    # Where there is no density nothing is known.
    inside = np.isfinite(up) & np.isfinite(down)
    with np.errstate(invalid="ignore"):
        return np.where(inside, up - down, 0.0), np.where(inside, rounding, np.inf)
