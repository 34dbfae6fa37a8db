"""Stan models, compiled by BridgeStan."""

import numpy as np

from skboost.adapters._base import Density, ExternalDensity, imported


def from_bridgestan(model):
    """A Stan model, compiled by BridgeStan, as a log density.

    Parameters
    ----------
    model : bridgestan.StanModel
        With its data. Threads (joblib's backend ``"threading"``) need a model compiled
        with ``STAN_THREADS=true``; processes do not.

    Returns
    -------
    ExternalDensity
        On Stan's unconstrained parameters: ``theta[1]``, counted from one as in Stan.
        Functions of one point, with Stan's constants dropped: the evidence is known up
        to a factor. Where the model rejects they raise: see `failures` of
        `boost_posterior`.

    Raises
    ------
    ImportError
        If BridgeStan is not installed (extra ``bridgestan``).
    ValueError
        For a model without parameters.
    """
    imported("bridgestan")
    if not model.param_unc_num():
        raise ValueError(
            "model must have parameters; got none. Declare them in its block "
            "parameters."
        )
    density = _Stan(model)
    names = tuple(_bracketed(name) for name in model.param_unc_names())
    return ExternalDensity(
        log_density=density,
        dim=len(names),
        gradient=density.gradient,
        vectorized=False,
        names=names,
        _constrain=density.constrain,
    )


class _Stan(Density):
    """A Stan model; in another process it is loaded again from its library."""

    # Scales are exponentials of the unconstrained coordinates.
    light_tails = True

    def __init__(self, model):
        self.model = model

    def __getstate__(self):
        return self.model.lib_path, self.model.data, self.model.seed

    def __setstate__(self, state):
        from bridgestan import StanModel

        path, data, seed = state
        self.model = StanModel(path, data or None, seed=seed, warn=False)

    def values(self, theta):
        rows = np.ascontiguousarray(theta)
        return np.array([self.model.log_density(row) for row in rows])

    def value_and_gradient(self, theta):
        return self.model.log_density_gradient(np.ascontiguousarray(theta))

    def constrain(self, draws):
        names = self.model.param_names(include_tp=True)
        rows = [
            self.model.param_constrain(row, include_tp=True) for row in draws.copy()
        ]
        return _gathered(names, np.reshape(rows, (len(draws), len(names))))


def _split(name):
    """``theta.1.2`` as ``theta`` and (1, 2); ``z.1.real`` as ``z.real`` and (1,)."""
    base, *rest = name.split(".")
    index = tuple(int(part) for part in rest if part.isdigit())
    return ".".join([base, *(part for part in rest if not part.isdigit())]), index


def _bracketed(name):
    """Stan's ``theta.1.2`` as ``theta[1,2]``."""
    base, index = _split(name)
    return f"{base}[{','.join(map(str, index))}]" if index else base


def _gathered(names, table):
    """Columns named ``theta.1.2`` as one array for each variable."""
    places = {}
    for column, name in enumerate(names):
        base, index = _split(name)
        places.setdefault(base, {})[index] = column
    return {base: _stacked(columns, table) for base, columns in places.items()}


def _stacked(columns, table):
    """Columns of a table (n, k) by Stan's index, as an array (n, *shape)."""
    array = np.empty((len(table), *np.max(list(columns), axis=0).astype(int)))
    for index, column in columns.items():
        array[(slice(None), *(i - 1 for i in index))] = table[:, column]
    return array
