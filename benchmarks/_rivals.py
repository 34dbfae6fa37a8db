"""NumPyro on a logistic regression with independent normal priors.

Imported where it is used: a script names a rival that is not installed as not run.
"""

import os

os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
)

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

jax.config.update("jax_enable_x64", True)


def logistic(X, y, scale=1.0):
    """NumPyro model: theta ~ N(0, scale^2), y ~ Bernoulli(sigmoid(X theta))."""
    X, y = jnp.asarray(X, dtype=float), jnp.asarray(y, dtype=float)
    scale = jnp.broadcast_to(jnp.asarray(scale, dtype=float), X.shape[1])

    def model():
        theta = numpyro.sample("theta", dist.Normal(0.0, scale).to_event(1))
        numpyro.sample("y", dist.Bernoulli(logits=X @ theta).to_event(1), obs=y)

    return model


def nuts(model, n_warmup=1000, n_draws=4000, n_chains=2, seed=0, dense_mass=True):
    """Draws of all chains, (n_chains * n_draws, dim)."""
    kernel = NUTS(model, dense_mass=dense_mass)
    mcmc = MCMC(
        kernel,
        num_warmup=n_warmup,
        num_samples=n_draws,
        num_chains=n_chains,
        chain_method="sequential",
        progress_bar=False,
    )
    mcmc.run(jax.random.PRNGKey(seed))
    draws = np.array(mcmc.get_samples(group_by_chain=True)["theta"])
    rhat = float(np.max(numpyro.diagnostics.split_gelman_rubin(draws)))
    return draws.reshape(-1, draws.shape[-1]), rhat
