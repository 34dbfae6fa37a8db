"""What posteriors of any kind say of the mixture behind them, also as tables."""

import warnings
from copy import copy

import numpy as np

from skboost._parameters import imported
from skboost._random import generator, root_seed
from skboost.posterior._importance import ImportanceSample, ImportanceWarning


def check_names(names, dim):
    """Names as a tuple of distinct strings, one per coordinate; None stays None."""
    if names is None:
        return None
    names = tuple(map(str, names))
    if len(names) != dim:
        raise ValueError(
            f"names must hold one name for each coordinate, {dim} in all; got "
            f"{len(names)}."
        )
    if len(set(names)) != dim:
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"names must be distinct; got {repeated} more than once.")
    return names


def summary_table(columns, names):
    """One row per coordinate: a DataFrame, or a structured array without pandas; names
    of None are ``theta[0]``, ``theta[1]`` and so on."""
    if names is None:
        dim = len(next(iter(columns.values())))
        names = [f"theta[{i}]" for i in range(dim)]
    labels = np.array(names, dtype=str)
    table = plain_table({"name": labels, **columns})
    return table.set_index("name") if hasattr(table, "set_index") else table


def plain_table(columns):
    """Columns by name as a DataFrame, or a structured array without pandas."""
    try:
        import pandas as pd
    except ImportError:
        arrays = [np.array(column) for column in columns.values()]
        return np.rec.fromarrays(arrays, names=list(columns))
    return pd.DataFrame(columns)


def arviz_groups(groups, n_chains, **names):
    """ArviZ data object of groups by name, dicts of independent draws that are split
    into chains, and of data as they are; `names` are ``dims`` and ``coords``."""
    arviz = imported("arviz", "to_arviz")
    groups = {
        group: draws
        if group.endswith("data")
        else {
            name: values.reshape(n_chains, -1, *values.shape[1:])
            for name, values in draws.items()
        }
        for group, draws in groups.items()
    }
    # ArviZ 1.0 takes all groups in one dictionary, earlier ones a keyword each.
    if int(arviz.__version__.split(".")[0]) >= 1:
        return arviz.from_dict(groups, **names)
    return arviz.from_dict(**groups, **names)


# --- posteriors of any kind


def as_generator(random_state):
    """Generator seeded by an int, a RandomState instance or None."""
    return generator(root_seed(random_state))


def check_size(name, value):
    """A positive integer."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < 1:
        raise ValueError(f"{name} must be a positive integer; got {value!r}.")
    return int(value)


def weighted(drawn, log_joint):
    """`ImportanceSample` of draws and their log densities; warns of heavy tails."""
    sample = ImportanceSample.of(*drawn, log_joint)
    # Above this shape no practical number of draws gives a reliable estimate.
    if sample.khat > 0.7:
        # At the line of the user, who called the caller's caller.
        warn_of_heavy_tails(sample.khat, stacklevel=5)
    return sample


def warn_of_heavy_tails(khat, stacklevel):
    """Warn of weights that a few draws carry."""
    warnings.warn(
        f"The importance weights have a Pareto shape of {khat:.2f}, above "
        "0.7: a few draws carry them, and what is computed from them is not "
        "reliable. Improve the approximation (max_iter, n_draws, a family with "
        "heavier tails) rather than raise n.",
        ImportanceWarning,
        stacklevel=stacklevel,
    )


def resampled(draw, log_joint, n, n_proposals, rng):
    """`n` equally weighted draws, an `ImportanceSample`, of `n_proposals` weighted
    ones; None means ``max(4 n, 4000)``."""
    n = check_size("n", n)
    if n_proposals is None:
        n_proposals = max(4 * n, 4000)
    drawn = draw(check_size("n_proposals", n_proposals), rng)
    return weighted(drawn, log_joint).resample(n, rng)


class MixtureBacked:
    """What every posterior says of the mixture behind it, without components of weight
    zero; subclasses give ``sample`` and ``_named`` (draws as a dict of arrays)."""

    __slots__ = ("_mixture",)

    # Only draws that are vectors have names of their coordinates.
    names = None

    def __init__(self, mixture):
        self._mixture = mixture.drop_zero_weights()

    @property
    def mixture(self):
        return self._mixture.base

    @property
    def weights(self):
        """Weights of the components, shape (n_components,)."""
        return self._mixture.weights

    @property
    def n_components(self):
        """Number of components."""
        return self._mixture.n_components

    @property
    def dim(self):
        """Numbers in one draw."""
        return self._mixture.dim

    def _with_mixture(self, mixture):
        """The same posterior of another mixture."""
        other = copy(self)
        other._mixture = mixture.drop_zero_weights()
        return other

    def _draw(self, n, rng):
        """Draws and their log densities."""
        return self._placed(self._mixture.exact.sample(n, rng), self._mixture)

    def _placed(self, z, *mixtures):
        """Draws of mixtures as users meet them, and log densities under each."""
        return z, *(mixture.log_density(z) for mixture in mixtures)

    def truncate(self, k):
        """The `k` (int, at least 1) heaviest components, of the same class, weights
        rescaled."""
        keep = np.zeros(self.n_components, dtype=bool)
        keep[np.argsort(-self.weights, kind="stable")[: check_size("k", k)]] = True
        return self._with_mixture(self._mixture.keep(keep))

    def to_arviz(self, n=4000, random_state=None, n_chains=4):
        """ArviZ data object with ``n`` draws as `n_chains` chains (extra ``arviz``).

        Parameters
        ----------
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
        per_chain = -(-check_size("n", n) // check_size("n_chains", n_chains))
        draws = self.sample(per_chain * n_chains, random_state)
        return arviz_groups({"posterior": self._named(draws)}, n_chains)


class ModelPosterior(MixtureBacked):
    """A posterior over the parameters of a conjugate model, as dicts of arrays.

    Subclasses give ``model``, ``_shapes`` (of a draw's arrays by name), ``_dict`` (rows
    as dicts) and ``_rows`` (the other way). Settings are arguments that made the model.
    """

    __slots__ = ("_settings",)

    def __init__(self, mixture, settings):
        super().__init__(mixture)
        self._settings = settings

    @property
    def settings(self):
        return self._settings

    def _named(self, draws):
        return draws

    def sample(self, n=1, random_state=None):
        """Draws in random order: a dict of arrays with a leading axis of draws.

        Parameters
        ----------
        n : int, default=1
        random_state : int, RandomState instance or None, default=None
        """
        rng = as_generator(random_state)
        return self._dict(self._mixture.sample(check_size("n", n), rng))

    def log_density(self, draws):
        """Log density, (n,) in nats, of `draws`, a dict as `sample` returns."""
        checked = {}
        for name, shape in self._shapes.items():
            array = np.asarray(draws.get(name, np.nan), dtype=float)
            if array.shape[1:] != shape or array.ndim != len(shape) + 1:
                wanted = ", ".join(["n", *map(str, shape)])
                raise ValueError(
                    f"draws[{name!r}] must have shape ({wanted}); got {array.shape}."
                )
            checked[name] = array
        if len({len(array) for array in checked.values()}) > 1:
            lengths = {name: len(array) for name, array in checked.items()}
            raise ValueError(f"draws must be equally many; got {lengths}.")
        return self._mixture.log_density(self._rows(checked))
