"""Local maxima of a mixture density."""

from dataclasses import dataclass

import numpy as np

from skboost.modes import find_mode


@dataclass(frozen=True, eq=False)
class Mode:
    """A local maximum of a mixture density.

    Attributes
    ----------
    location : ndarray of shape (dim,)
    log_density : float
        ``ln q`` there, nats.
    weight : float
        Total weight of the components whose means climb to this mode.
    components : tuple of int
        Those components.
    distance : float
        From the highest mode: the Euclidean length of the way there, each coordinate
        measured in standard deviations of the heaviest of `components`. Zero for the
        highest mode itself.

    Examples
    --------
    >>> import autograd.numpy as np
    >>> from skboost import boost_posterior
    >>> def two(theta):
    ...     return np.logaddexp(-((theta[:, 0] - 4) ** 2), -((theta[:, 0] + 4) ** 2))
    >>> box = (np.array([-8.0]), np.array([8.0]))
    >>> result = boost_posterior(two, 1, x0=box, random_state=0)
    >>> [round(mode.weight, 1) for mode in result.posterior.modes()]
    [0.5, 0.5]
    """

    location: np.ndarray
    log_density: float
    weight: float
    components: tuple
    distance: float = 0.0

    def __repr__(self):
        shown = np.array2string(
            self.location, precision=4, threshold=6, edgeitems=2, separator=", "
        )
        return (
            f"Mode(location={shown}, log_density={self.log_density:.4g}, "
            f"weight={self.weight:.3g}, distance={self.distance:.3g}, "
            f"components={self.components})"
        )


class _Density:
    """The density of a mixture, or of it after a warp, in the coordinates before it: it
    has the same maxima, at the points that the map takes to them."""

    def __init__(self, mixture, warp):
        self._mixture, self._warp = mixture, warp

    def log_density(self, z):
        """Log density at z (n, dim), or at their images, nats."""
        log_q = self._mixture.log_density(z)
        return log_q if self._warp is None else log_q - self._warp.log_jacobian(z)

    def value_and_score(self, z):
        """`log_density`, and its gradient in z."""
        score, log_q = self._mixture.score_and_log_density(z)
        if self._warp is None:
            return log_q, score
        log_q = log_q - self._warp.log_jacobian(z)
        return log_q, score - self._warp.log_jacobian_gradient(z)


def mixture_modes(mixture, warp=None):
    """Modes of a mixture, or of what a warp makes of it, reached by ascent from every
    component mean, highest first: two ends are one where ln q does not dip between."""
    density = _Density(mixture, warp)
    means, stds = mixture.component_locations(), mixture.component_scales()
    # A mean that is a saddle by symmetry has a zero gradient: a nudge leaves it.
    nudge = np.random.default_rng(0).standard_normal(means.shape)
    ends = [
        _climb(density, means[k], stds[k], means[k] + 1e-3 * stds[k] * nudge[k])
        for k in range(mixture.n_components)
    ]
    heights = density.log_density(np.array(ends))
    # Components by the mode that they climb to, each mode by its first member.
    groups = []
    for k in np.argsort(-heights, kind="stable").tolist():
        for members in groups:
            if _same_mode(density, ends[members[0]], ends[k]):
                members.append(k)
                break
        else:
            groups.append([k])
    modes = []
    for members in groups:
        location, weights = ends[members[0]], mixture.weights[members]
        heaviest = members[int(np.argmax(weights))]
        away = (location - ends[groups[0][0]]) / stds[heaviest]
        modes.append(
            Mode(
                location,
                float(heights[members[0]]),
                float(weights.sum()),
                tuple(sorted(members)),
                float(np.linalg.norm(away)),
            )
        )
    return modes


def _climb(density, mean, std, start):
    options = {"gtol": 1e-8, "ftol": 1e-15, "maxiter": 1000}
    ends = np.array([find_mode(density, start, std, mean, **options), mean])
    # A kink (Laplace) stops the line search short of a mean that is the maximum.
    return ends[np.argmax(density.log_density(ends))]


def _same_mode(density, a, b, n_points=65):
    path = np.linspace(0.0, 1.0, n_points)[:, None]
    heights = density.log_density(a + path * (b - a))
    # Two maxima are one if ln q dips by less than a millionth of a nat between them.
    return heights.min() >= min(heights[0], heights[-1]) - 1e-6
