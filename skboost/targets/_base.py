"""What every target offers."""

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
    n_evaluations, n_failures : int
        Draws at which it was evaluated, and at which that failed, where these are
        counted.
    first_failure : str or None
        What happened at the first of these.
    ledgers : tuple of Ledger
        What counts them.
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
    n_evaluations = n_failures = 0
    first_failure = None
    ledgers = ()
    knows_curvature = False
    scale_prior = None
    constraints = None
    largest_coordinate = np.inf
    portable = False
    dim: int

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

    def expected_values(self, structures):
        """Exact expectations of the log joint under several Gaussians.

        Parameters
        ----------
        structures : list of tuple
            What ``expected_log_density`` takes of each.

        Returns
        -------
        array (n_structures,), in nats
        """
        return np.array([self.expected_log_density(*s)[0] for s in structures])

    def value_and_score(self, theta):
        """Log joint density (n_draws,) and its gradient (n_draws, dim)."""
        raise NotImplementedError(
            f"{type(self).__name__} must define value_and_score(theta)."
        )

    def tolerant(self):
        """This target as a search sees it.

        It survives points where it fails, and its expectations are no better than a
        search needs. Most targets are their own view.
        """
        return self
