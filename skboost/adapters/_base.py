"""What an adapter returns, and what adapters share."""

from dataclasses import dataclass, field

import numpy as np

from skboost.posterior import arviz_groups, check_level, summary_table


@dataclass(frozen=True, eq=False)
class ExternalDensity:
    """A log density from another library, on coordinates without constraints.

    Attributes
    ----------
    log_density : callable
        Of one point (dim,) or of rows (n, dim), in nats, with the log-Jacobian of the
        library's own transforms. Its method ``value_and_gradient`` gives both for the
        price of the gradient.
    dim : int
        Number of unconstrained coordinates.
    gradient : callable
        Gradient of `log_density`: of rows if `vectorized`, else of one point.
    vectorized : bool
        Whether the library evaluates many points at once.
    names : tuple of str or None
        Of the coordinates.
    x0 : ndarray of shape (dim,) or None
        Where the library would start; None is the origin.

    Examples
    --------
    >>> from skboost import boost_posterior
    >>> from skboost.adapters import from_pymc
    >>> density = from_pymc(model)  # doctest: +SKIP
    >>> result = boost_posterior(**density.arguments(tol=1e-3))  # doctest: +SKIP
    >>> draws = density.constrain(result.posterior.sample(1000))  # doctest: +SKIP
    """

    log_density: object
    dim: int
    gradient: object
    vectorized: bool
    names: tuple | None = None
    x0: np.ndarray | None = None
    _constrain: object = field(default=None, repr=False)

    def arguments(self, **settings):
        """Keyword arguments of `boost_posterior`, a dict, with or in place of others.

        Parameters
        ----------
        **settings
            Others to go with them, such as another `x0`.
        """
        own = {name: value for name, value in vars(self).items() if name[0] != "_"}
        return own | settings

    def constrain(self, draws):
        """Draws of the unconstrained coordinates, on the model's own scale.

        Parameters
        ----------
        draws : array-like of shape (n, dim)
            As from ``result.posterior.sample(n)``.

        Returns
        -------
        dict of str to ndarray of shape (n, ...)
            By the names of the model's variables, deterministic ones included; for a
            JAX function, which has no variables, the array of draws itself.
        """
        draws = np.asarray(draws, dtype=float)
        if draws.ndim != 2 or draws.shape[1] != self.dim:
            raise ValueError(
                f"draws must be of shape (n, {self.dim}); got {draws.shape}. Pass "
                "result.posterior.sample(n)."
            )
        return draws if self._constrain is None else self._constrain(draws)

    def _variables(self, posterior, n, random_state):
        draws = self.constrain(posterior.sample(n, random_state))
        return draws if isinstance(draws, dict) else {"theta": draws}

    def summary(self, posterior, level=0.9, n=20_000, random_state=0):
        """Table with one row for each number among the model's variables, from draws.

        Parameters
        ----------
        posterior : MixturePosterior
            ``result.posterior`` of a run with these `arguments`.
        level : float, default=0.9
            Probability inside the interval.
        n : int, default=20_000
            Draws.
        random_state : int, RandomState instance or None, default=0

        Returns
        -------
        pandas.DataFrame, or a structured ndarray where pandas is not installed
            Rows ``tau``, ``theta[0]``, ...; columns as of ``posterior.summary``.
        """
        tail = 0.5 * (1.0 - check_level(level))
        named = self._variables(posterior, n, random_state).items()
        names = [label for key, v in named for label in indexed(key, v.shape[1:])]
        draws = np.concatenate([v.reshape(len(v), -1) for _, v in named], axis=1)
        lower, median, upper = np.quantile(draws, [tail, 0.5, 1.0 - tail], axis=0)
        columns = {
            "mean": draws.mean(axis=0), "std": draws.std(axis=0),
            "lower": lower, "median": median, "upper": upper,
            "probability_positive": (draws > 0.0).mean(axis=0),
        }  # fmt: skip
        return summary_table(columns, names)

    def to_arviz(self, posterior, n=4000, random_state=None, n_chains=4):
        """ArviZ data object with draws of the model's own variables (extra ``arviz``).

        Parameters
        ----------
        posterior : MixturePosterior
            ``result.posterior`` of a run with these `arguments`.
        n : int, default=4000
            Draws in all; rounded up to a multiple of `n_chains`.
        random_state : int, RandomState instance or None, default=None
        n_chains : int, default=4
            Draws are independent; ArviZ's diagnostics ask for chains.

        Returns
        -------
        InferenceData or DataTree
            By the version of ArviZ; its group ``posterior`` has chains and draws.
        """
        n = -(-n // n_chains) * n_chains
        draws = self._variables(posterior, n, random_state)
        return arviz_groups({"posterior": draws}, n_chains)


class Density:
    """A log density whose ``values`` and ``value_and_gradient`` take theta (n, dim)."""

    def __call__(self, theta):
        theta = np.asarray(theta, dtype=float)
        return self.values(theta) if theta.ndim == 2 else self.values(theta[None])[0]

    def gradient(self, theta):
        """The gradient alone."""
        return self.value_and_gradient(theta)[1]


def indexed(name, shape):
    """``theta[0,1]`` and so on, in the order of a raveled array."""
    if not shape:
        return [name]
    return [f"{name}[{','.join(map(str, index))}]" for index in np.ndindex(*shape)]
