"""nutpie (NUTS in Rust) on PyMC models of the posteriors of `price.py` and `groups.py`.

Imported where it is used: a script names a rival that is not installed as not run.
"""

import numpy as np
import nutpie
import pymc as pm

from _harness import timed  # isort: skip


def _prior(name, scale, shape):
    kind = {"normal": pm.Normal, "laplace": pm.Laplace, "cauchy": pm.Cauchy}[name]
    return kind("theta", 0.0, scale, shape=shape)


def logistic(X, y, scale, prior="normal"):
    """theta ~ N(0, scale^2), y ~ Bernoulli(sigmoid(X theta)); scale by column."""
    with pm.Model() as model:
        theta = _prior(prior, scale, X.shape[1])
        pm.Bernoulli("y", logit_p=pm.math.dot(X, theta), observed=y)
    return model


def glm(kind, X, y, scale, prior, noise):
    """The model of a boosted estimator with one row of noise a hundredth of `scale`."""
    if kind == "logistic":
        two = y.max() == 1
        return logistic(X, y, scale, prior) if two else softmax(X, y, scale)
    with pm.Model() as model:
        theta = _prior(prior, scale, X.shape[1])
        eta = pm.math.dot(X, theta)
        if kind == "poisson":
            pm.Poisson("y", pm.math.exp(eta), observed=y)
            return model
        square = pm.InverseGamma("square", 0.5, 0.5 * (0.01 * y.std()) ** 2)
        sd = pm.math.sqrt(square)
        if noise == "normal":
            pm.Normal("y", eta, sd, observed=y)
        else:
            pm.StudentT("y", nu=4.0, mu=eta, sigma=sd, observed=y)
    return model


def glm_columns(flat):
    """Coefficients, intercept and the logarithm of the scale of noise."""
    if "square" not in flat:
        return flat["theta"]
    return np.hstack([flat["theta"], 0.5 * np.log(flat["square"])])


def softmax(X, y, scale):
    """The symmetric multinomial model: one vector of coefficients for each class."""
    with pm.Model() as model:
        theta = pm.Normal("theta", 0.0, scale, shape=(y.max() + 1, X.shape[1]))
        pm.Categorical("y", logit_p=pm.math.dot(X, theta.T), observed=y)
    return model


def eight_schools(effects, errors):
    """Rubin's, the effects standardised ("non-centred")."""
    with pm.Model() as model:
        z = pm.Normal("z", 0.0, 1.0, shape=len(effects))
        mu, tau = pm.Normal("mu", 0.0, 5.0), pm.HalfCauchy("tau", 5.0)
        pm.Normal("y", mu + tau * z, errors, observed=effects)
    return model


def funnel(dim):
    """Neal's funnel, centred."""
    with pm.Model() as model:
        v = pm.Normal("v", 0.0, 3.0)
        pm.Normal("x", 0.0, pm.math.exp(0.5 * v), shape=dim - 1)
    return model


def funnel_columns(flat):
    """Its first coordinate, then the others."""
    return np.hstack([flat["v"], flat["x"]])


def grouped(task):
    """A `Task` of `groups.py`: coefficients, scales of effects and the effects."""
    n, n_columns = len(task.y), task.X.shape[1]
    with pm.Model() as model:
        scales = np.append(np.full(n_columns, task.coef_scale), task.intercept_scale)
        coef = pm.Normal("coef", 0.0, scales, shape=len(scales))
        eta = pm.math.dot(np.column_stack([task.X, np.ones(n)]), coef)
        for f, (codes, slopes) in enumerate(zip(task.codes, task.slopes, strict=True)):
            levels, codes = np.unique(codes, return_inverse=True)
            Z = np.column_stack([np.ones(n), task.X[:, list(slopes)]])
            shape = len(levels), Z.shape[1]
            sd = pm.HalfStudentT(f"sd{f}", task.df, task.size, shape=Z.shape[1])
            if task.centred:
                effects = pm.Normal(f"u{f}", 0.0, sd, shape=shape)
            else:
                v = pm.Normal(f"v{f}", shape=shape)
                effects = pm.Deterministic(f"u{f}", v * sd)
            eta = eta + (Z * effects[codes]).sum(axis=1)
        observed(task, eta)
    return model


def observed(task, eta):
    """The responses of a grouped model."""
    if task.kind == "poisson":
        pm.Poisson("y", pm.math.exp(eta), observed=task.y)
    elif task.kind == "logistic" and task.trials is None:
        pm.Bernoulli("y", logit_p=eta, observed=task.y)
    elif task.kind == "logistic":
        pm.Binomial("y", task.trials, logit_p=eta, observed=task.y)
    else:
        half = 0.5 * task.noise_weight
        variance = pm.InverseGamma("variance", half, half * task.noise_size**2)
        noise = pm.Deterministic("noise", pm.math.sqrt(variance))
        pm.Normal("y", eta, noise, observed=task.y)


def grouped_columns(flat):
    """Coefficients, scales and noise, then the effects of all factors."""
    n_factors = sum(name[0] == "u" for name in flat)
    scales = [flat[f"sd{f}"] for f in range(n_factors)]
    noise = [flat["noise"]] if "noise" in flat else []
    effects = [flat[f"u{f}"] for f in range(n_factors)]
    return np.hstack([flat["coef"], *scales, *noise, *effects])


class Sampler:
    """A compiled model; `seconds` are those of its compilation, in CPU time.

    Parameters
    ----------
    model : pymc.Model
    columns : callable
        From the posterior group, with chains and draws flattened, to (n, dim).
    """

    def __init__(self, model, columns):
        self._columns = columns
        self._compiled, compiled, _ = timed(nutpie.compile_pymc_model, model)
        # What is compiled at the first call belongs to compilation.
        _, first, _ = timed(self._sample, tune=5, draws=5, seed=0, n_chains=1)
        self.seconds = compiled + first

    def _sample(self, tune, draws, seed, n_chains):
        return nutpie.sample(
            self._compiled, tune=tune, draws=draws, chains=n_chains, cores=1,
            seed=seed, progress_bar=False, save_warmup=False,
        )  # fmt: skip

    def run(self, tune, draws, seed, n_chains=2):
        """Draws (n_chains * draws, dim), CPU seconds, and the largest R-hat."""
        trace, cpu, _ = timed(self._sample, tune, draws, seed, n_chains)
        groups = {
            name: values.to_numpy()
            for name, values in trace.posterior.data_vars.items()
        }
        rhat = max(split_rhat(v.reshape(n_chains, draws, -1)) for v in groups.values())
        flat = {k: v.reshape(n_chains * draws, -1) for k, v in groups.items()}
        return self._columns(flat), cpu, rhat


def schools_columns(flat):
    """In the order and the coordinates of posteriordb: z, mu, log tau."""
    return np.hstack([flat["z"], flat["mu"], np.log(flat["tau"])])


def split_rhat(draws):
    """Largest split R-hat of the coordinates of (chains, draws, dim)."""
    half = draws.shape[1] // 2
    parts = np.concatenate([draws[:, :half], draws[:, half : 2 * half]])
    within = parts.var(axis=1, ddof=1).mean(axis=0)
    between = parts.mean(axis=1).var(axis=0, ddof=1)
    return float(np.sqrt((half - 1) / half + between / within).max())
