"""Functions written in JAX, models of PyMC, and Stan models compiled by BridgeStan."""

import numpy as np

from skboost._parameters import imported
from skboost.adapters._base import Density, ExternalDensity, indexed


def from_jax(function, dim):
    """A log density written in JAX.

    Parameters
    ----------
    function : callable
        Of one point (dim,), to a scalar in nats; whatever ``jax.grad`` and ``jax.vmap``
        take.
    dim : int
        Length of the point.

    Returns
    -------
    ExternalDensity
        Of rows, compiled when first used. Coordinates that are not free are declared
        to `boost_posterior` with its `constraints`.

    Raises
    ------
    ValueError
        If JAX computes in single precision: the noise of its values is that of whole
        nats where the log density is in the millions.

    Examples
    --------
    >>> import jax
    >>> from skboost import boost_posterior
    >>> from skboost.adapters import from_jax
    >>> jax.config.update("jax_enable_x64", True)
    >>> density = from_jax(lambda theta: -jax.numpy.sum(theta**4), dim=2)
    >>> result = boost_posterior(**density.arguments(), max_iter=1)
    """
    jax = imported("jax", "from_jax")
    if not jax.config.jax_enable_x64:
        raise ValueError(
            "from_jax needs double precision, and JAX is set to single. Call "
            'jax.config.update("jax_enable_x64", True) before any other use of JAX.'
        )
    density = _Jitted(function)
    return ExternalDensity(density, dim, density.gradient, vectorized=True)


class _Jitted(Density):
    """A function mapped over rows and compiled; in another process, compiled again."""

    def __init__(self, function):
        import jax

        self._function = function
        self._value = jax.jit(jax.vmap(function))
        self._both = jax.jit(jax.vmap(jax.value_and_grad(function)))

    def __reduce__(self):
        # The state is unpickled after the call: arrays in it need double precision.
        return _elsewhere, (), self._function

    def __setstate__(self, function):
        self.__init__(function)

    def values(self, theta):
        return np.asarray(self._value(_padded(theta)))[: len(theta)]

    def value_and_gradient(self, theta):
        value, gradient = self._both(_padded(theta))
        return np.asarray(value)[: len(theta)], np.asarray(gradient)[: len(theta)]


def _elsewhere():
    """An empty `_Jitted` in a worker process, whose JAX is set as it comes."""
    import jax

    jax.config.update("jax_enable_x64", True)
    return _Jitted.__new__(_Jitted)


def _padded(theta):
    """Rows up to 32, 128, 512, ...: JAX compiles anew for every number of them."""
    n = max(32, 1 << ((len(theta) - 1).bit_length() | 1))
    return np.concatenate([theta, np.repeat(theta[-1:], n - len(theta), axis=0)])


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
        of rows, compiled here once. It starts at PyMC's initial point.

    Raises
    ------
    ValueError
        For discrete or no free variables.

    Examples
    --------
    >>> import pymc as pm  # doctest: +SKIP
    >>> from skboost import boost_posterior
    >>> from skboost.adapters import from_pymc
    >>> with pm.Model() as model:  # doctest: +SKIP
    ...     rate = pm.HalfNormal("rate", 2.0)
    ...     pm.Poisson("counts", rate, observed=[3, 5, 4])
    >>> boost_posterior(from_pymc(model)).posterior.summary()  # doctest: +SKIP
    """
    imported("pymc", "from_pymc")
    if model.discrete_value_vars:
        discrete = [variable.name for variable in model.discrete_value_vars]
        raise ValueError(
            f"model must have continuous free variables only; got discrete {discrete}. "
            "Sum them out, for example by pymc.Mixture or pymc_extras.marginalize."
        )
    if not model.value_vars:
        raise ValueError(
            "model must have free random variables; got none. Give it priors."
        )
    point = model.initial_point()
    names, start = [], []
    for variable in model.value_vars:
        value = np.asarray(point[variable.name], dtype=float)
        names += indexed(variable.name, value.shape)
        start.append(value.ravel())
    density = _Compiled(model, point)
    return ExternalDensity(
        log_density=density,
        dim=len(names),
        gradient=density.gradient,
        vectorized=True,
        names=tuple(names),
        x0=np.concatenate(start),
        _constrain=density.constrain,
    )


class _Compiled(Density):
    """Functions of rows of raveled value variables; PyTensor can pickle them."""

    def __init__(self, model, point):
        from pymc.pytensorf import join_nonshared_inputs
        from pytensor import grad
        from pytensor.graph.replace import vectorize_graph
        from pytensor.tensor import matrix

        def compiled(outputs, differentiated=False):
            joined, flat = join_nonshared_inputs(point, outputs, model.value_vars)
            if differentiated:
                # Before rows: loops of a model have gradients of one point only.
                joined = [*joined, grad(joined[0], flat)]
            rows = matrix("rows", dtype=flat.dtype)
            of_rows = vectorize_graph(joined, {flat: rows})
            return model.compile_fn(of_rows, inputs=[rows], point_fn=False)

        reported = {variable.name for variable in model.unobserved_RVs}
        outputs = [v for v in model.unobserved_value_vars if v.name in reported]
        self._names = {v.name: v.ndim for v in outputs}
        self._value = compiled([model.logp()])
        self._both = compiled([model.logp()], differentiated=True)
        self._outputs = compiled(outputs)

    def values(self, theta):
        return self._value(theta)[0]

    def value_and_gradient(self, theta):
        rows = np.atleast_2d(theta)
        value, gradient = self._both(rows)
        return (value, gradient) if theta.ndim == 2 else (value[0], gradient[0])

    def constrain(self, draws):
        found, outputs = {}, self._outputs(draws)
        for (name, ndim), values in zip(self._names.items(), outputs, strict=True):
            if values.ndim == ndim:
                # What depends on no free variable is the same in every row.
                values = np.broadcast_to(values, (len(draws), *values.shape))
            found[name] = values
        return found


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


    Examples
    --------
    >>> import bridgestan  # doctest: +SKIP
    >>> from skboost import boost_posterior
    >>> from skboost.adapters import from_bridgestan
    >>> model = bridgestan.StanModel("model.stan", "data.json")  # doctest: +SKIP
    >>> density = from_bridgestan(model)  # doctest: +SKIP
    """
    imported("bridgestan", "from_bridgestan")
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
