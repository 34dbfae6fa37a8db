"""Models written for other libraries, as log densities for `boost_posterior`.

PyMC, BridgeStan and JAX are extras: each is imported only when its adapter is used.
"""

from skboost.adapters._base import ExternalDensity
from skboost.adapters._libraries import from_bridgestan, from_jax, from_pymc

__all__ = ["ExternalDensity", "from_bridgestan", "from_jax", "from_pymc"]
