"""NumPyro's Gaussian and flow guides on any log density, for a given CPU time.

Imported where it is used, as `_rivals` is.
"""

import time

import _rivals  # noqa: F401  (one thread, 64 bits)
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import lax
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import (
    AutoIAFNormal,
    AutoLowRankMultivariateNormal,
    AutoMultivariateNormal,
)
from numpyro.infer.initialization import init_to_median

GUIDES = {
    "full-rank": AutoMultivariateNormal,
    "low-rank": AutoLowRankMultivariateNormal,
    "flow (IAF)": AutoIAFNormal,
}
# Steps that are timed to find out how many fit into the seconds.
_TIMED = 20
# Fresh draws at once.
_BLOCK = 500


class Guide:
    """Optimised by Adam, its step decaying by a factor of a hundred.

    Parameters
    ----------
    name : str
        Of `GUIDES`; their hyperparameters are NumPyro's defaults.
    log_density : callable
        Of one point, written with ``jax.numpy``.
    dim : int
    step_size : float
    n_particles : int
        Draws in each step.
    """

    def __init__(self, name, log_density, dim, step_size, n_particles):
        def model():
            flat = dist.ImproperUniform(dist.constraints.real_vector, (), (dim,))
            numpyro.factor("joint", log_density(numpyro.sample("theta", flat)))

        self.guide = GUIDES[name](model, init_loc_fn=init_to_median)

        def svi(n_total):
            adam = numpyro.optim.Adam(lambda i: step_size * 0.01 ** (i / n_total))
            return SVI(model, self.guide, adam, Trace_ELBO(num_particles=n_particles))

        self.svi = svi(1.0)
        self.params = None

        def run(state, n_steps, n_total):
            # What `init` found out, and does not depend on the number of steps.
            one = svi(n_total)
            one.constrain_fn = self.svi.constrain_fn
            return lax.fori_loop(0, n_steps, lambda _, s: one.update(s)[0], state)

        self._run = jax.jit(run)

    def fit(self, seconds, seed):
        """Steps that fit into so many CPU seconds, and the seconds they took.

        Compilation, and the steps that are timed first, are not counted.
        """
        state = self.svi.init(jax.random.PRNGKey(seed))
        self._timed(state, 1)
        n = _TIMED
        while (cpu := self._timed(state, n)[1]) < 0.02 * seconds:
            n *= 4
        n = max(1, round(n * seconds / cpu))
        state, cpu = self._timed(state, n)
        self.params = self.svi.get_params(state)
        return n, cpu

    def _timed(self, state, n):
        began = time.process_time()
        state = jax.block_until_ready(self._run(state, n, float(n)))
        return state, time.process_time() - began

    def log_ratio(self, log_density, n, seed):
        """``ln p - ln q`` at `n` fresh draws, the density of the guide exact."""
        base, transform = self.guide.get_base_dist(), self.guide.get_transform
        transform = transform(self.params)

        @jax.jit
        def block(key):
            z = base.sample(key, (_BLOCK,))
            theta = transform(z)
            log_q = base.log_prob(z) - transform.log_abs_det_jacobian(z, theta)
            return jax.vmap(log_density)(theta) - log_q

        keys = jax.random.split(jax.random.PRNGKey(seed), -(-n // _BLOCK))
        return np.concatenate([np.asarray(block(key)) for key in keys])[:n]
