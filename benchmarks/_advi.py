"""PyMC's ADVI and Pathfinder and nutpie's NUTS on any density, for `densities.py`.

Imported where it is used: the script names a rival that is not installed as not run.
"""

import numpy as np
import nutpie
import pymc as pm
import pymc_extras as pmx
import pytensor.tensor as pt
from nutpie.compiled_pyfunc import from_pyfunc
from pytensor.graph.op import Op
from scipy.stats import multivariate_normal, norm

_N_DRAWS = 5_000


class _Counted:
    """A log density of one point and its gradient; evaluations are counted."""

    def __init__(self, log_density, gradient):
        self.log_density, self.gradient, self.n = log_density, gradient, 0

    def value(self, x):
        self.n += 1
        return float(self.log_density(x[None])[0])

    def slope(self, x):
        return np.asarray(self.gradient(x[None])[0], dtype=float)

    def both(self, x):
        return self.value(x), self.slope(x)


class _Slope(Op):
    itypes, otypes = [pt.dvector], [pt.dvector]

    def __init__(self, counted):
        self.counted = counted

    def perform(self, node, inputs, outputs):
        outputs[0][0] = self.counted.slope(inputs[0])


class _Value(Op):
    itypes, otypes = [pt.dvector], [pt.dscalar]

    def __init__(self, counted):
        self.counted = counted

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.array(self.counted.value(inputs[0]))

    def grad(self, inputs, slopes):
        return [slopes[0] * _Slope(self.counted)(inputs[0])]


def _advi(method, log_density, gradient, dim):
    """Draws, their log densities and evaluations: 10,000 steps, PyMC's default."""
    counted = _Counted(log_density, gradient)
    with pm.Model():
        x = pm.Flat("x", shape=dim)
        pm.Potential("density", _Value(counted)(x))
        start = {"x": np.zeros(dim)}
        found = pm.fit(
            10_000, method=method, start=start, random_seed=0, progressbar=False
        )
    rng, mean = np.random.default_rng(1), found.mean.eval()
    if method == "advi":
        sd = found.std.eval()
        theta = mean + sd * rng.standard_normal((_N_DRAWS, dim))
        return theta, norm.logpdf(theta, mean, sd).sum(axis=1), counted.n
    normal = multivariate_normal(mean, found.cov.eval(), allow_singular=True)
    theta = normal.rvs(_N_DRAWS, random_state=rng).reshape(_N_DRAWS, dim)
    return theta, normal.logpdf(theta), counted.n


def mean_field(log_density, gradient, dim):
    return _advi("advi", log_density, gradient, dim)


def full_rank(log_density, gradient, dim):
    return _advi("fullrank_advi", log_density, gradient, dim)


def pathfinder(log_density, gradient, dim):
    """Draws of four paths, resampled by importance: PyMC's defaults, in one process."""
    counted = _Counted(log_density, gradient)
    with pm.Model():
        x = pm.Flat("x", shape=dim, initval=np.zeros(dim))
        pm.Potential("density", _Value(counted)(x))
        found = pmx.fit(
            method="pathfinder", num_draws=_N_DRAWS, num_draws_per_path=_N_DRAWS,
            concurrent=None, random_seed=0, progressbar=False, display_summary=False,
        )  # fmt: skip
    return found.posterior["x"].to_numpy().reshape(-1, dim), None, counted.n


def nuts(log_density, gradient, dim):
    """Four chains by nutpie's defaults."""
    counted = _Counted(log_density, gradient)
    compiled = from_pyfunc(
        dim, lambda: counted.both, lambda *_: lambda x: {"x": x},
        [np.dtype(float)], [(dim,)], ["x"],
    )  # fmt: skip
    trace = nutpie.sample(
        compiled, chains=4, cores=1, seed=0, progress_bar=False, store_divergences=False
    )
    return trace.posterior["x"].to_numpy().reshape(-1, dim), None, counted.n


RIVALS = {
    "ADVI": mean_field,
    "full-rank ADVI": full_rank,
    "Pathfinder": pathfinder,
    "nutpie": nuts,
}
