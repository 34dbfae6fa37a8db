"""Models written for other libraries, as log densities for `boost_posterior`.

PyMC, BridgeStan and JAX are extras: each is imported only when its adapter is used.
"""

from dataclasses import dataclass, field
from importlib import import_module

import numpy as np

__all__ = ["ExternalDensity", "from_bridgestan", "from_jax", "from_pymc"]


@dataclass(frozen=True)
class ExternalDensity:
    """A log density from another library, on unconstrained coordinates.

    Attributes
    ----------
    log_density : callable
        Nats, with the log-Jacobian of the library's own transforms. Its method
        ``value_and_gradient`` gives both for the price of the gradient.
    dim : int
        Number of unconstrained coordinates.
    gradient : callable
        Gradient of `log_density`.
    vectorized : bool
        Whether both take batches (n, dim) or one point (dim,).
    names : tuple of str or None
        Of the coordinates.
    x0 : ndarray of shape (dim,) or None
        Where the library would start; None is the origin.

    Examples
    --------
    >>> from skboost import boost_posterior
    >>> from skboost.adapters import from_pymc
    >>> density = from_pymc(model)  # doctest: +SKIP
    >>> result = boost_posterior(**density.arguments())  # doctest: +SKIP
    >>> draws = density.constrain(result.posterior.sample(1000))  # doctest: +SKIP
    """

    log_density: object
    dim: int
    gradient: object
    vectorized: bool
    names: tuple | None = None
    x0: np.ndarray | None = None
    _constrain: object = field(default=None, repr=False)

    def arguments(self):
        """Keyword arguments of `boost_posterior`, as a dict."""
        return {
            "log_density": self.log_density,
            "dim": self.dim,
            "gradient": self.gradient,
            "vectorized": self.vectorized,
            "names": self.names,
            "x0": self.x0,
        }

    def constrain(self, draws):
        """Draws of the unconstrained coordinates, on the model's own scale.

        Parameters
        ----------
        draws : array-like of shape (n, dim)
            As from ``result.posterior.sample(n)``.

        Returns
        -------
        dict of str to ndarray of shape (n, *shape)
            By the names of the model's variables, deterministic ones included; for a
            JAX function, which has no names, the array of draws itself.
        """
        draws = np.asarray(draws, dtype=float)
        if draws.ndim != 2 or draws.shape[1] != self.dim:
            raise ValueError(
                f"draws must be of shape (n, {self.dim}); got {draws.shape}."
            )
        return draws if self._constrain is None else self._constrain(draws)


def from_pymc(model):
    """A PyMC model as a log density.

    Parameters
    ----------
    model : pymc.Model
        Without discrete free variables: a mixture of Gaussians has no place for them.

    Returns
    -------
    ExternalDensity
        On PyMC's value variables, raveled: ``tau_log__``, ``theta[0]``, ... Functions
        of one point, compiled here once.

    Raises
    ------
    ImportError
        If PyMC is not installed (extra ``pymc``).
    ValueError
        For discrete or no free variables.
    """
    _imported("pymc")
    if model.discrete_value_vars:
        discrete = [variable.name for variable in model.discrete_value_vars]
        raise ValueError(
            f"model must have continuous free variables only; got discrete {discrete}. "
            "Sum them out, for example by pymc.Mixture or pymc_extras.marginalize."
        )
    if not model.value_vars:
        raise ValueError(
            "model must have free random variables; got none. Build it with a prior."
        )
    point = model.initial_point()
    names, start = [], []
    for variable in model.value_vars:
        value = np.asarray(point[variable.name], dtype=float)
        names += _indexed(variable.name, value.shape)
        start.append(value.ravel())
    density = _CompiledPyMC(model, point)
    return _external(density, names, np.concatenate(start), density.constrain)


class _Paired:
    """A log density of one point whose gradient comes with its value."""

    def gradient(self, theta):
        return self.value_and_gradient(theta)[1]


class _CompiledPyMC(_Paired):
    """Compiled functions of the raveled value variables; PyTensor can pickle them."""

    def __init__(self, model, point):
        from pymc.pytensorf import join_nonshared_inputs
        from pytensor import grad

        def compiled(outputs, differentiated=False):
            joined, flat = join_nonshared_inputs(point, outputs, model.value_vars)
            if differentiated:
                joined = [*joined, grad(joined[0], flat)]
            return model.compile_fn(joined, inputs=[flat], point_fn=False)

        reported = {variable.name for variable in model.unobserved_RVs}
        outputs = [v for v in model.unobserved_value_vars if v.name in reported]
        self.names = [v.name for v in outputs]
        self._value = compiled([model.logp()])
        self._both = compiled([model.logp()], differentiated=True)
        self._outputs = compiled(outputs)

    def __call__(self, theta):
        return float(self._value(theta)[0])

    def value_and_gradient(self, theta):
        value, gradient = self._both(theta)
        return float(value), gradient

    def constrain(self, draws):
        rows = [self._outputs(row) for row in draws]
        return {
            name: np.array([row[k] for row in rows])
            for k, name in enumerate(self.names)
        }


def from_bridgestan(model):
    """A Stan model, compiled by BridgeStan, as a log density.

    Parameters
    ----------
    model : bridgestan.StanModel
        With its data.

    Returns
    -------
    ExternalDensity
        On Stan's unconstrained parameters: ``theta[1]``, counted from one as in Stan.
        Functions of one point. Where the model rejects they raise: see `failures` of
        `boost_posterior`.

    Raises
    ------
    ImportError
        If BridgeStan is not installed (extra ``bridgestan``).
    ValueError
        For a model without parameters.
    """
    _imported("bridgestan")
    if not model.param_unc_num():
        raise ValueError(
            "model must have parameters; got none. Declare them in its block "
            "parameters."
        )
    density = _Stan(model)
    names = [_bracketed(name) for name in model.param_unc_names()]
    return _external(density, names, None, density.constrain)


class _Stan(_Paired):
    """A Stan model; in another process it is loaded again from its library."""

    def __init__(self, model):
        self.model = model

    def __getstate__(self):
        return self.model.lib_path, self.model.data, self.model.seed

    def __setstate__(self, state):
        from bridgestan import StanModel

        path, data, seed = state
        self.model = StanModel(path, data or None, seed=seed, warn=False)

    def __call__(self, theta):
        return self.model.log_density(np.ascontiguousarray(theta))

    def value_and_gradient(self, theta):
        return self.model.log_density_gradient(np.ascontiguousarray(theta))

    def constrain(self, draws):
        rows = [
            self.model.param_constrain(np.ascontiguousarray(row), include_tp=True)
            for row in draws
        ]
        names = self.model.param_names(include_tp=True)
        return _gathered(names, np.reshape(rows, (len(draws), len(names))))


def from_jax(function, dim, names=None, x0=None):
    """A log density written in JAX.

    Parameters
    ----------
    function : callable
        Of one point (dim,), to a scalar; whatever ``jax.grad`` and ``jax.vmap`` take.
    dim : int
    names : sequence of str, default=None
    x0 : array-like of shape (dim,), default=None

    Returns
    -------
    ExternalDensity
        Of batches, compiled when first used.

    Raises
    ------
    ImportError
        If JAX is not installed (extra ``jax``).
    ValueError
        If JAX computes in single precision: the noise of its values is that of whole
        nats where the log density is in the millions.
    """
    jax = _imported("jax")
    if not jax.config.jax_enable_x64:
        raise ValueError(
            "from_jax needs double precision, and JAX is set to single. Call "
            'jax.config.update("jax_enable_x64", True) before any other use of JAX.'
        )
    density = _Jitted(function)
    names = None if names is None else tuple(names)
    return ExternalDensity(density, dim, density.gradient, True, names, x0)


class _Jitted(_Paired):
    """A function mapped over rows and compiled; in another process, compiled again."""

    def __init__(self, function):
        import jax

        self.function = function
        self._value = jax.jit(jax.vmap(function))
        self._both = jax.jit(jax.vmap(jax.value_and_grad(function)))

    def __reduce__(self):
        return _jitted_elsewhere, (self.function,)

    def __call__(self, theta):
        return np.asarray(self._value(_padded(theta)))[: len(theta)]

    def value_and_gradient(self, theta):
        value, gradient = self._both(_padded(theta))
        return np.asarray(value)[: len(theta)], np.asarray(gradient)[: len(theta)]


def _jitted_elsewhere(function):
    """The same in a worker process, whose JAX is set as it comes."""
    import jax

    jax.config.update("jax_enable_x64", True)
    return _Jitted(function)


def _padded(theta):
    """Rows up to a power of two: JAX compiles anew for every number of them."""
    n = max(16, 1 << (len(theta) - 1).bit_length())
    return np.concatenate([theta, np.repeat(theta[-1:], n - len(theta), axis=0)])


def _imported(name):
    """The module of an extra, or how to get it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f'from_{name} needs {name}. Install it with: pip install "skboost[{name}]"'
        ) from error


def _external(density, names, x0, constrain):
    return ExternalDensity(
        density, len(names), density.gradient, False, tuple(names), x0, constrain
    )


def _indexed(name, shape):
    """``theta[0,1]`` and so on, in the order of a raveled array."""
    if not shape:
        return [name]
    return [f"{name}[{','.join(map(str, index))}]" for index in np.ndindex(*shape)]


def _bracketed(name):
    """Stan's ``theta.1.2`` as ``theta[1,2]``."""
    base, *index = name.split(".")
    return f"{base}[{','.join(index)}]" if index else base


def _gathered(names, table):
    """Columns named ``theta.1.2`` as one array for each variable."""
    columns = {}
    for k, name in enumerate(names):
        base, *index = name.split(".")
        columns.setdefault(base, []).append((tuple(int(i) - 1 for i in index), k))
    arrays = {}
    for base, places in columns.items():
        shape = tuple(max(index) + 1 for index in zip(*(i for i, _ in places), strict=True))
        arrays[base] = np.empty((len(table), *shape))
        for index, k in places:
            arrays[base][(slice(None), *index)] = table[:, k]
    return arrays
