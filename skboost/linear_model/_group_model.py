"""A hierarchical regression as one frozen object."""

from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import clone

from skboost._random import EFFECTS, generator
from skboost.approximation import psis
from skboost.hierarchy import HierarchicalTarget, marginal_of, with_coefficients
from skboost.linear_model._group_responses import Unit
from skboost.linear_model._groups import Columns, levels_of
from skboost.linear_model._layout import Layout
from skboost.linear_model._model import highest_point, prior_and_scale
from skboost.linear_model._summary import column_moments
from skboost.posterior import as_posterior, summary_table
from skboost.targets import HalfTPrior, NormalPrior, Prior, ScalePrior
from skboost.transforms import Constraints, LowerBound, Scale

# Draws of the posterior that answers about groups are averages over, and how many
# numbers they may hold: 64 MiB.
_N_DRAWS, _MOST_NUMBERS = 1024, 1 << 23
# Scale of the half-t prior of standard deviations of effects, in units of the linear
# predictor, as brms has it.
_HALF_T = 2.5


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupModel:
    """Response, priors and layout of a hierarchical regression, as its rows set them.

    Factors have labels, and no effects. The last coordinates are scales of effects and
    of noise behind `transforms`; `level_priors` are those of their logarithms.
    """

    layout: Layout
    columns: Columns
    factors: tuple
    response: object
    unit: Unit
    prior: Prior
    scale: np.ndarray
    level_priors: tuple
    transforms: tuple

    def joint(self, rows):
        """The log joint density of grouped rows, a target."""
        # Type and not kind: others are no normal distributions.
        normal = self.scale if type(self.prior) is NormalPrior else None
        marginal = marginal_of(rows, self.response.likelihood, normal)
        target = HierarchicalTarget(
            marginal, self.prior, self.scale, self.level_priors, self.transforms
        )
        # About the standard deviations of a posterior.
        weight, n = rows.weight, target.n_columns
        size = np.sqrt(weight @ rows.X**2 / weight.sum())
        size[size == 0.0] = 1.0
        unit = np.ones(target.dim)
        fewest = min((f.n_groups for f in rows.factors), default=0)
        unit[:n] = (self.unit.error / (size * np.sqrt(1.0 + weight.sum())))[:n]
        unit[n:] /= np.sqrt(1.0 + fewest)
        target.unit = unit
        return target

    def start(self, target):
        """Where the search starts: a mode from the level of the responses, (1, dim)."""
        centre, n = np.zeros(target.dim), target.n_columns
        if self.layout.intercept and n:
            centre[n - 1] = self.unit.level
        half = np.array(0.5 * self.unit.size)
        centre[n:] = [transform.inverse(half) for transform in self.transforms]
        return highest_point(target, centre, target.unit)[None]

    def renamed(self, names):
        """The same model with other names of the columns of X."""
        features = tuple(names[i] for i in self.columns.numbers)
        return replace(self, layout=replace(self.layout, features=features))

    @property
    def constraints(self):
        """From coordinates to scales as users know them; None without any."""
        return self._constraints(len(self.layout.names))

    def _constraints(self, dim):
        """Of the last of `dim` coordinates."""
        positive = dict(enumerate(self.transforms, dim - len(self.transforms)))
        return Constraints(positive, dim) if positive else None

    def posterior_of(self, target):
        """What makes the posterior of a mixture, and constraints of its coordinates."""
        if not target.marginal.integrates_coefficients:
            return as_posterior, self.constraints

        def posterior(mixture, names, constraints):
            whole = with_coefficients(mixture, target)
            return as_posterior(whole, names, self.constraints)

        return posterior, self._constraints(target.dim)

    def variances(self, posterior):
        """Standard deviations of effects and noise, with their 90 % intervals."""
        names = self.layout.further
        some = slice(posterior.dim - len(names), None)
        low, high = posterior.interval(0.9)[some].T
        columns = {"mean": posterior.mean()[some], "std": posterior.std()[some]}
        return summary_table(columns | {"5%": low, "95%": high}, names)

    def attributes(self, posterior, draws):
        """Fitted attributes, from the posterior and from `drawn` of it."""
        coef, intercept, _ = self.layout.split(posterior.mean())
        factors = draws.model.factors
        return {
            "coef_": coef[0].copy(),
            "intercept_": float(intercept[0]),
            "group_levels_": {factor.name: levels_of(factor) for factor in factors},
            "group_effects_": {f.name: f.fitted_effects.mean(axis=2) for f in factors},
            "variance_components_": self.variances(posterior),
            "icc_": draws.correlations(),
            "effects_pareto_k_": draws.khat,
            "effects_efficiency_": draws.efficiency,
        }

    def drawn(self, target, mixture, seed):
        """What predicts: draws of everything from a mixture over the target."""
        rng = generator(seed, EFFECTS)
        theta, effects, *weighted = _draws(target, mixture, self.factors, rng)
        coef, levels, *noise = target.split(theta)
        if target.marginal.integrates_coefficients:
            *effects, coef = effects
            coef = coef[0].T
        scales = np.exp(levels)
        factors, start = [], 0
        for factor, draws in zip(self.factors, effects, strict=False):
            stop = start + 1 + len(factor.slopes)
            half = rng.standard_normal((stop - start, len(theta) // 2))
            unseen = scales[:, start:stop].T * np.hstack([half, -half])
            factors.append(replace(factor, effects=np.append(draws, [unseen], axis=0)))
            start = stop
        plain = self.response.plain(
            n_features=len(self.columns.names),
            numbers=np.array(self.columns.numbers, dtype=int),
            factors=tuple(factors),
            coef=coef,
            noise=np.exp(noise[0]) if noise else None,
        )
        return GroupPredictive(self.response, plain, scales, *weighted)


def group_model(estimator, data, response):
    """The model of an estimator's parameters for `GroupedData`."""
    unit = response.unit(data.table)
    noise, names, priors, transforms = response.level_prior(unit), [], [], []
    for name, prior, transform in _scales(data, estimator.scale_prior, unit):
        names.append(name)
        priors.append(prior)
        transforms.append(transform)
    if noise is not None:
        names.append(response.noise_name)
        priors.append(noise)
        transforms.append(LowerBound())
    layout = Layout(data.features, estimator.fit_intercept, further=tuple(names))
    prior, scale = prior_and_scale(estimator, data.table, layout, unit.size, unit.level)
    return GroupModel(
        layout=layout,
        columns=data.columns,
        factors=data.factors,
        response=response,
        unit=unit,
        prior=prior,
        scale=scale,
        level_priors=tuple(priors),
        transforms=tuple(transforms),
    )


def _scales(data, chosen, unit):
    """Names of the scales of effects, priors in their units, and transforms."""
    weight, (_, spread) = data.rows.weight, column_moments(data.table)
    if isinstance(chosen, ScalePrior):
        chosen = clone(chosen).checked()
    for factor, codes in zip(data.factors, data.rows.factors, strict=True):
        for k, column in zip((None, *factor.slopes), codes.columns.T, strict=True):
            of = factor.name if k is None else f"{factor.name}: {data.features[k]}"
            size = _HALF_T * unit.size / (1.0 if k is None else spread[k])
            prior = HalfTPrior(3.0, size) if isinstance(chosen, str) else chosen
            # An effect as large as its error would be if every group stood alone.
            rows = max(weight @ column**2 / codes.n_groups, 1e-300)
            yield f"sd({of})", prior, Scale(unit.error / np.sqrt(rows))


# --- draws


@dataclass(frozen=True, eq=False)
class GroupPredictive:
    """Draws of coefficients, effects and noise in the plain model that predicts, and of
    scales (n_draws, n_scales); `khat` is that of their weights, `efficiency` the share
    of the draws that weigh as much as all do.

    Rows are their numeric columns, their groups by factor, and offsets of counts.
    """

    response: object
    model: object
    scales: np.ndarray
    khat: float
    efficiency: float

    def quantiles(self, rows, p):
        """What the response says of every row, (n, n_levels)."""
        parts = self.model.predictors(*rows)
        return np.concatenate(
            [self.response.quantiles(self.model, eta, p) for _, eta in parts]
        )

    def log_density(self, rows, y):
        """Of responses, (n,)."""
        parts = self.model.predictors(*rows)
        return np.concatenate(
            [self.response.log_density(self.model, eta, y[some]) for some, eta in parts]
        )

    def correlations(self):
        """Share of the variance that the intercepts of a factor make up, by factor."""
        start, shares = 0, {}
        for factor in self.model.factors:
            shares[factor.name] = self.scales[:, start] ** 2
            start += 1 + len(factor.slopes)
        total = self.response.residual_variance(self.model) + sum(shares.values())
        return {name: float((part / total).mean()) for name, part in shares.items()}

    def taken(self, picked, layout):
        """Some of the draws, as users meet them."""
        model, n = self.model, len(layout.features)
        coef, scales = model.coef[picked], self.scales[picked]
        if model.noise is not None:
            scales = np.column_stack([scales, model.noise[picked]])
        intercept = coef[:, -1] if layout.intercept else np.zeros(len(picked))
        scales = dict(zip(layout.names[coef.shape[1] :], scales.T, strict=True))
        effects = {
            factor.name: np.moveaxis(factor.fitted_effects[..., picked], -1, 0)
            for factor in model.factors
        }
        return coef[:, :n], intercept, scales, effects


def _draws(target, mixture, factors, rng):
    """Draws of coefficients and scales, of effects, k-hat and efficiency of weights.

    They come in pairs, with the effects on both sides of their mean. Where effects are
    integrated out by Laplace's method, draws are taken anew by weights that make them
    exact.
    """
    sizes = [(1 + len(factor.slopes), len(factor.present)) for factor in factors]
    if target.marginal.integrates_coefficients:
        sizes.append((target.n_coefficients, 1))
    width = 1 + sum(q * n for q, n in sizes)
    n_pairs = int(np.clip(_MOST_NUMBERS // (2 * width), 16, _N_DRAWS // 2))
    theta = mixture.sample(n_pairs, rng)
    normals = tuple(rng.standard_normal((q, n_pairs, n)) for q, n in sizes)
    marginal, given = target.marginal, target.split(theta)
    picked, khat, efficiency = slice(None), 0.0, 1.0
    if marginal.exact:
        effects = marginal.effects(normals, *given)
    else:
        effects, log_weights = marginal.weighted_effects(normals, *given)
        smoothed, khat = psis(log_weights.ravel())[:2]
        weight = np.exp(smoothed - smoothed.max())
        efficiency = weight.sum() ** 2 / (weight @ weight) / len(weight)
        share = weight.cumsum()
        steps = (rng.random() + np.arange(2 * n_pairs)) / (2 * n_pairs)
        picked = np.searchsorted(share / share[-1], steps)
    # (2, q, n_pairs, n_groups) to (n_groups, q, n_draws).
    flat = [np.concatenate(one, axis=1).transpose(2, 0, 1) for one in effects]
    flat = [np.ascontiguousarray(one[..., picked]) for one in flat]
    return np.tile(theta, (2, 1))[picked], flat, float(khat), float(efficiency)
