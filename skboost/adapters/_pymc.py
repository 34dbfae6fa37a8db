"""PyMC models."""

import numpy as np

from skboost.adapters._base import Density, ExternalDensity, imported, indexed


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
    ImportError
        If PyMC is not installed (extra ``pymc``).
    ValueError
        For discrete or no free variables.
    """
    imported("pymc")
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
    """Functions of rows of raveled value variables; PyTensor can pickle them.

    The model's graph is that of one point; ``vectorize_graph`` makes it one of rows.
    """

    # Scales are exponentials of the unconstrained coordinates.
    light_tails = True

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
        def of_rows(values, ndim):
            # What depends on no free variable is the same in every row.
            constant = values.ndim == ndim
            return (
                np.broadcast_to(values, (len(draws), *values.shape))
                if constant
                else values
            )

        found = zip(self._names.items(), self._outputs(draws), strict=True)
        return {name: of_rows(values, ndim) for (name, ndim), values in found}
