"""A hierarchical regression as one frozen object."""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from skboost._random import EFFECTS, generator, quasi_normal
from skboost._row_blocks import Table
from skboost.approximation import psis
from skboost.fitting import DensityError
from skboost.hierarchy import (
    HierarchicalTarget,
    error_of_trend,
    marginal_of,
    with_coefficients,
)
from skboost.linear_model._class_predictive import entropy_of, log_binomial_of
from skboost.linear_model._group_columns import Columns
from skboost.linear_model._group_levels import Levels, levels_of_groups
from skboost.linear_model._group_responses import Unit
from skboost.linear_model._groups import levels_of
from skboost.linear_model._model import Layout, highest_point, prior_and_scale
from skboost.linear_model._preprocessors import numbers_step
from skboost.linear_model._summary import column_moments
from skboost.posterior import as_posterior, summary_table
from skboost.targets import Centre, NormalPrior, Prior
from skboost.transforms import Constraints

# Draws of the posterior that answers about groups are averages over, and how many
# numbers they may hold: 64 MiB.
N_DRAWS, _MOST_NUMBERS = 1024, 1 << 23
# Share of the draws that weigh as much as all do above which no tail is looked for: a
# twentieth of a nat is between their densities, as where a run may end.
_EQUAL = 0.9
# Share of the draws that weigh as much as all do, and shape of the tail of weights,
# beyond which weights do not say what an approximate density misses.
_FEW_EFFECTIVE, _HEAVY = 0.3, 0.7


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupModel:
    """Response, priors and layout of a hierarchical regression, as its rows set them.

    Factors have labels, and no effects; `exposed` where rows had offsets. The last
    coordinates are those of `levels`.
    """

    layout: Layout
    columns: Columns
    factors: tuple
    response: object
    unit: Unit
    prior: Prior
    scale: np.ndarray
    centring: Centre
    levels: Levels
    n_rows: float
    exposed: bool = False

    def begun(self, rows, budget):
        """The log joint density of grouped rows, a target, and starts of its search,
        which ends with the seconds of a budget.
        """
        for integrated in (True, False):
            target = self.joint(rows, integrated)
            with target.ledger.within(budget, raises=False):
                start, reliable = self._start(target)
            if reliable:
                break
        return target, start

    def joint(self, rows, integrated=True):
        """The log joint density of grouped rows, a target, where coefficients may be
        `integrated` out.
        """
        # Type and not kind: others are no normal distributions.
        integrated = integrated and type(self.prior) is NormalPrior
        normal = self.scale if integrated else None
        if self.layout.intercept:
            rows = replace(rows, X=rows.X - np.append(self.centring.columns, 0.0))
        marginal = marginal_of(rows, self.response.likelihood, normal)
        settings = self.levels.priors, self.levels.transforms, self.centring
        target = HierarchicalTarget(marginal, self.prior, self.scale, *settings)
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

    def _start(self, target):
        """Where the search starts: a mode from the level of the responses, (1, dim).

        And whether what is integrated out near it can be relied on.
        """
        centre, n = np.zeros(target.dim), target.n_columns
        if self.layout.intercept and n:
            centre[n - 1] = self.unit.level
        centre[n:] = self.levels.start(0.5 * self.unit.size)
        mode = highest_point(target, centre, target.unit)
        return mode[None], target.learn_missed(mode, target.unit)

    @property
    def dispersed(self):
        """Whether counts have a dispersion."""
        return self.response.noise_name == "dispersion"

    def renamed(self, names):
        """The same model with other names of the columns of X."""
        features = self.columns._replace(names=tuple(names)).features
        return replace(self, layout=replace(self.layout, features=features))

    @property
    def components(self):
        """Names of standard deviations of effects and noise and of correlations."""
        n = self.levels.covariances.n_levels + (self.response.noise_name is not None)
        return self.layout.further[:n]

    def _constraints(self, dim):
        """From the last of `dim` coordinates to scales as users know them, or None."""
        found = self.levels.constraints(dim - len(self.levels.names))
        return Constraints(found, dim) if found else None

    def posterior_of(self, target):
        """What makes the posterior of a mixture, and constraints of its coordinates."""
        integrated = target.marginal.integrates_coefficients
        whole = (
            partial(with_coefficients, target=target) if integrated else target.at_zero
        )

        def posterior(mixture, names, constraints):
            constraints = self._constraints(len(self.layout.names))
            return as_posterior(whole(mixture), names, constraints)

        return posterior, self._constraints(target.dim)

    def variances(self, posterior):
        """Standard deviations of effects and noise and correlations, with their 90 %
        intervals.
        """
        names = self.components
        start = posterior.dim - len(self.layout.further)
        some = slice(start, start + len(names))
        low, high = posterior.interval(0.9)[some].T
        columns = {"mean": posterior.mean()[some], "std": posterior.std()[some]}
        return summary_table(columns | {"5%": low, "95%": high}, names)

    def attributes(self, draws):
        """Fitted attributes from what `drawn` gives."""
        factors = draws.model.factors
        return {
            "group_levels_": {factor.name: levels_of(factor) for factor in factors},
            "group_effects_": {f.name: f.fitted_effects.mean(axis=2) for f in factors},
            "icc_": draws.correlations(),
            "effects_pareto_k_": draws.khat,
            "effects_efficiency_": draws.efficiency,
        }

    def drawn(self, target, mixture, seed, n_draws=N_DRAWS):
        """What predicts: draws of everything from a mixture over the target."""
        rng = generator(seed, EFFECTS)
        theta, effects, *weighted = _draws(target, mixture, self.factors, n_draws, rng)
        coef, levels, *further = target.split(theta)
        if target.marginal.integrates_coefficients:
            *effects, coef = effects
            coef = coef[0].T
        coef = self.centring.back(coef)
        factors, roots = [], self.levels.covariances.roots(levels)
        for factor, root, draws in zip(self.factors, roots, effects, strict=False):
            half = rng.standard_normal((factor.n_effects, len(theta) // 2))
            unseen = np.einsum("qrs,rs->qs", root, np.hstack([half, -half]))
            factors.append(replace(factor, effects=np.append(draws, [unseen], axis=0)))
        # Columns that have slopes alone have coefficients of zero.
        numbers, fixed = len(self.columns.numbers), list(self.columns.fixed)
        spread = np.zeros((len(coef), numbers + self.layout.intercept))
        spread[:, fixed] = coef[:, : len(fixed)]
        spread[:, numbers:] = coef[:, len(fixed) :]
        plain = self.response.plain(
            n_features=len(self.columns.names),
            numbers=numbers_step(self.columns.numbers, self.columns.labels),
            factors=tuple(factors),
            coef=spread,
            noise=_shared(further),
        )
        scales = self.levels.as_known(levels)
        return GroupPredictive(self.response, plain, scales, *weighted)


def group_model(estimator, data, response, exposed=False):
    """The model of an estimator's parameters for `GroupedData`."""
    unit = response.unit(data.table)
    levels = levels_of_groups(data, estimator, unit, response)
    intercept = estimator._said.fit_intercept
    layout = Layout(data.columns.features, intercept, further=levels.names)
    table = data.table
    table = Table(table.X[:, data.columns.fixed], table.y, table.weight, table.offset)
    prior, scale = prior_and_scale(estimator, table, layout, unit.size, unit.level)
    centring = Centre(column_moments(table)[0]) if intercept else Centre()
    return GroupModel(
        layout=layout,
        columns=data.columns,
        factors=data.factors,
        response=response,
        unit=unit,
        prior=prior,
        scale=scale,
        centring=centring,
        levels=levels,
        n_rows=float(data.rows.weight.sum()),
        exposed=exposed,
    )


# --- draws


def _shared(further):
    """What all rows share, from its logarithms: (n_draws,), a column for each of
    several, or None of nothing.
    """
    values = np.exp(np.transpose(further))
    return (values if len(further) > 1 else values[:, 0]) if further else None


@dataclass(frozen=True, eq=False)
class GroupPredictive:
    """Draws of coefficients, effects and noise in the plain model that predicts, and of
    scales and correlations (n_draws, n_levels); `khat` is that of their weights,
    `efficiency` the share of the draws that weigh as much as all do, `error` what the
    density lacks of which coefficients and scales are.

    Rows are their numeric columns, their groups by factor, and offsets of counts.
    """

    response: object
    model: object
    scales: np.ndarray
    khat: float
    efficiency: float
    error: DensityError | None = None

    def quantiles(self, *rows_and_p):
        """What the response says of every row, (n, n_levels)."""
        *rows, p = rows_and_p
        return self._by_row(
            lambda _, eta: self.response.quantiles(self.model, eta, p), rows
        )

    interval = quantiles

    def log_density(self, *rows_and_y):
        """Of responses, (n,)."""
        *rows, y = rows_and_y
        density = self.response.log_density
        return self._by_row(lambda k, eta: density(self.model, eta, y[k]), rows)

    def log_proba(self, *rows):
        """Logarithms of probabilities, -inf where these are zero in rounding."""
        with np.errstate(divide="ignore"):
            return np.log(self.model.proba(*rows))

    def aleatoric(self, *rows):
        """Expected entropy given coefficients and effects, (n,)."""
        drawn = self.model.drawn
        return self._by_row(lambda _, eta: entropy_of(drawn(eta)).mean(axis=1), rows)

    def log_counted(self, *rows_and_counts):
        """Log probability of counts of both classes, (n,)."""
        *rows, failures, successes = rows_and_counts
        if self.model.ranks is not None:
            # The second of two is the lower one.
            failures, successes = successes, failures
        return self._by_row(
            lambda k, eta: log_binomial_of(failures[k], successes[k], eta), rows
        )

    def _by_row(self, answer, rows):
        """What a function makes of blocks of rows and their predictors."""
        parts = self.model.predictors(*rows)
        return np.concatenate([answer(some, eta) for some, eta in parts])

    def correlations(self):
        """Share of the variance that the intercepts of a factor make up, by factor."""
        start, shares = 0, {}
        for factor in self.model.factors:
            if factor.intercept:
                shares[factor.name] = self.scales[:, start] ** 2
            start += factor.n_effects
        total = self.response.residual_variance(self.model) + sum(shares.values())
        return {name: float((part / total).mean()) for name, part in shares.items()}

    def taken(self, picked, layout, fixed):
        """Some of the draws, as users meet them; `fixed` columns have coefficients."""
        model = self.model
        coef, scales = model.coef[picked], self.scales[picked]
        if model.noise is not None:
            scales = np.column_stack([scales, model.noise[picked]])
        intercept = coef[:, -1] if layout.intercept else np.zeros(len(picked))
        scales = dict(zip(layout.names[-scales.shape[1] :], scales.T, strict=True))
        effects = {
            factor.name: np.moveaxis(factor.fitted_effects[..., picked], -1, 0)
            for factor in model.factors
        }
        return coef[:, list(fixed)], intercept, scales, effects


def _draws(target, mixture, factors, n_draws, rng):
    """Draws of coefficients and scales, of effects, k-hat and efficiency of weights,
    and the `DensityError` of what the mixture was fitted to.

    They come in pairs, with the effects on both sides of their mean. Where effects are
    integrated out by Laplace's method, draws are taken anew by weights that make them
    exact.
    """
    sizes = [(factor.n_effects, len(factor.present)) for factor in factors]
    if target.marginal.integrates_coefficients:
        sizes.append((target.n_coefficients, 1))
    width = 1 + sum(q * n for q, n in sizes)
    n_pairs = int(np.clip(_MOST_NUMBERS // (2 * width), 16, n_draws // 2))
    theta = mixture.sample(n_pairs, rng)
    normals = quasi_normal([(q, n_pairs, n) for q, n in sizes], rng)
    marginal, given = target.marginal, target.split(theta)
    share, khat, efficiency, error = None, 0.0, 1.0, None
    if marginal.exact:
        effects = marginal.effects(normals, *given)
    else:
        effects, log_weights = marginal.weighted_effects(normals, *given)
        log_weights = target.log_weights_over(mixture, theta, log_weights)
        smoothed, khat = psis(log_weights.ravel())[:2]
        weight = np.exp(np.tile(smoothed, 2 // len(log_weights)) - smoothed.max())
        efficiency = weight.sum() ** 2 / (weight @ weight) / len(weight)
        # Weights that are nearly constant have any shape of tail.
        khat = 0.0 if efficiency > _EQUAL else khat
        # Weights that are those of scales, too, are counted where draws of these are.
        value, se = 0.0, 0.0
        if not marginal.weighs_scales:
            value, se = error_of_trend(theta, log_weights)
        heavy = efficiency < _FEW_EFFECTIVE or khat > _HEAVY
        error = DensityError(float(value), np.inf if heavy else float(se), khat)
        share = weight / weight.sum()
    # (2, q, n_pairs, n_groups) to (n_groups, q, n_draws).
    flat = [np.concatenate(one, axis=1).transpose(2, 0, 1) for one in effects]
    # Of many groups each holds tens of megabytes.
    del effects, normals
    flat = _taken([np.tile(theta.T, 2), *flat], share, rng)
    weighted = float(khat), float(efficiency), error
    return flat[0].T, flat[1:], *weighted


def _taken(draws, share, rng):
    """Arrays of draws, along their last axes, taken anew by their shares if any.

    What that adds of noise is taken off means, and covariances along the axis before
    the last: these are those of the shares.
    """
    if share is None:
        return list(map(np.ascontiguousarray, draws))
    steps = (rng.random() + np.arange(len(share))) / len(share)
    cumulated = share.cumsum()
    picked = np.searchsorted(cumulated / cumulated[-1], steps)
    found = []
    for old in draws:
        mean, new = (old @ share)[..., None], old[..., picked]
        off, new = old - mean, new - new.mean(axis=-1, keepdims=True)
        # Draws that do not vary have no root, and few that are left another one.
        with suppress(np.linalg.LinAlgError):
            has = np.linalg.cholesky(new @ new.swapaxes(-1, -2) / len(share))
            wanted = np.linalg.cholesky((off * share) @ off.swapaxes(-1, -2))
            ratio = np.diagonal(wanted, 0, -2, -1) / np.diagonal(has, 0, -2, -1)
            if (np.abs(np.log2(ratio)) < 1.0).all():
                new = wanted @ np.linalg.solve(has, new)
        found.append(np.ascontiguousarray(mean + new))
    return found
