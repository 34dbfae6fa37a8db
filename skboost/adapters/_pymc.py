"""PyMC models."""

import numpy as np

from skboost.adapters._base import Density, ExternalDensity, imported


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
        of one point, compiled here once. It starts at PyMC's initial point.

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
        names += _indexed(variable.name, value.shape)
        start.append(value.ravel())
    density = _Compiled(model, point)
    return ExternalDensity(
        log_density=density,
        dim=len(names),
        gradient=density.gradient,
        vectorized=False,
        names=tuple(names),
        x0=np.concatenate(start),
        _constrain=density.constrain,
    )


class _Compiled(Density):
    """Functions of the raveled value variables; PyTensor can pickle them."""

    # Scales are exponentials of the unconstrained coordinates.
    light_tails = True

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
        self._names = [v.name for v in outputs]
        self._value = compiled([model.logp()])
        self._both = compiled([model.logp()], differentiated=True)
        self._outputs = compiled(outputs)

    def values(self, theta):
        return np.array([float(self._value(row)[0]) for row in theta])

    def value_and_gradient(self, theta):
        value, gradient = self._both(theta)
        return float(value), gradient

    def constrain(self, draws):
        rows = [self._outputs(row) for row in draws]
        return {
            name: np.array([row[k] for row in rows])
            for k, name in enumerate(self._names)
        }


def _indexed(name, shape):
    """``theta[0,1]`` and so on, in the order of a raveled array."""
    if not shape:
        return [name]
    return [f"{name}[{','.join(map(str, index))}]" for index in np.ndindex(*shape)]
