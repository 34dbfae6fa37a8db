"""Functions written in JAX."""

import numpy as np

from skboost.adapters._base import Density, ExternalDensity, imported


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
    ImportError
        If JAX is not installed (extra ``jax``).
    ValueError
        If JAX computes in single precision: the noise of its values is that of whole
        nats where the log density is in the millions.
    """
    jax = imported("jax")
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
    """Rows up to a power of two: JAX compiles anew for every number of them."""
    n = max(16, 1 << (len(theta) - 1).bit_length())
    return np.concatenate([theta, np.repeat(theta[-1:], n - len(theta), axis=0)])
