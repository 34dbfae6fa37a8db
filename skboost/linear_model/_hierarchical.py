"""What the hierarchical regressions share: groups of rows and their effects."""

from dataclasses import replace
from numbers import Integral

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from skboost._budget import Budget
from skboost._random import EFFECTS, generator
from skboost._row_blocks import Table
from skboost._rows import canonical_rows
from skboost._sklearn import InstanceOf, StrOptions, check_sample_weight
from skboost.approximation import psis
from skboost.boosting import SurrogateBoosting
from skboost.hierarchy import Factor, GroupedRows, HierarchicalTarget, marginal_of
from skboost.linear_model._coefficients import Served
from skboost.linear_model._groups import (
    codes_of,
    learned,
    levels_of,
    numbers_of,
    resolve,
    warn_of_unidentified,
)
from skboost.linear_model._layout import Layout
from skboost.linear_model._linear_model import BoostedLinearModel
from skboost.linear_model._methods import tails_of
from skboost.linear_model._model import SCALED_CONSTRAINTS, highest_point
from skboost.linear_model._summary import check_spread, column_moments
from skboost.posterior import (
    as_generator,
    as_posterior,
    check_size,
    summary_table,
)
from skboost.targets import HalfTPrior, ScalePrior, as_prior
from skboost.transforms import Constraints

# Draws of the posterior that answers about groups are averages over, and how many
# numbers they may hold: 64 MiB.
_N_DRAWS, _MOST_NUMBERS = 1024, 1 << 23

# Where every evaluation is dear, "auto" is this many nats: some hundred draws, of which
# an evaluation each is spent, tell no less from noise.
_DEAR_TOL = 0.02

# The engine's hyperparameters, which few scales and coefficients need not choose.
_ENGINE = {
    "family": "gaussian",
    "objective": "kl",
    "step_size": "line-search",
    "corrective": "fully-corrective",
    "refine": True,
    "stopping": "gain",
    "max_components": None,
    "n_draws": 512,
    "calibrate": None,
    "skew": "auto",
}

HIERARCHICAL_CONSTRAINTS = {
    name: SCALED_CONSTRAINTS[name]
    for name in (
        "prior", "fit_intercept", "intercept_scale", "max_iter", "tol", "max_time",
        "random_state", "n_jobs",
    )
} | {
    # No common scale of the coefficients is learned beside those of effects.
    "prior_scale": [StrOptions({"auto"}), *SCALED_CONSTRAINTS["prior_scale"][2:]],
    "groups": ["array-like", str, Integral, None],
    "slopes": [dict, None],
    "nested": ["array-like", None],
    "scale_prior": [StrOptions({"half_t"}), InstanceOf(ScalePrior, "skboost.priors")],
    "handle_unknown": [StrOptions({"population", "error"})],
}  # fmt: skip


class HierarchicalModel(Served, BoostedLinearModel):
    """A boosted posterior over coefficients and scales, and effects of groups.

    Subclasses give ``_likelihood``, None where noise is normal; ``_units(table)``, the
    size and the level of what the linear predictor has to explain, and its error if a
    row stood alone; ``_residual_variance(model)`` for the intraclass correlation; and
    ``_plain``, the plain model that they predict with.
    """

    warm_start = False
    _n_outputs = 1
    _noise_name = None  # Of the last coordinate, where it is not a scale of effects.
    _row_noise = None  # What a group of one row has that is like its effect.

    def _hyperparameters(self):
        # A surrogate skews by itself: the target would be evaluated for every pair.
        skew = {} if self._cheap else {"skew": None}
        return _ENGINE | skew | self.get_params(deep=False)

    def _engine(self, target, params, starts, seed):
        """Boosting on a surrogate: integrals over groups are dear, coordinates few."""
        if target.marginal.cheap:
            return super()._engine(target, params, starts, seed)
        if params["tol"] == "auto":
            # A run ends where twice as much is left; a Gaussian fitted to 1,000 exact
            # draws would leave d (d + 3) / 4000.
            d = target.dim
            params = {**params, "tol": max(_DEAR_TOL, d * (d + 3) / 8000)}
        engine = super()._engine(target, params, starts, seed)
        return SurrogateBoosting.of(engine, skews=True)

    # --- rows

    def _grouped(self, X, y, sample_weight, offset=None):
        """Grouped rows in canonical form; learns columns and labels.

        Returns
        -------
        rows : GroupedRows
        table : Table
            The same rows, for their moments.
        """
        self._forget_names()
        X = self._seen(X, reset=True)
        self._columns = resolve(
            self._feature_names(), self.groups, self.slopes, self.nested
        )
        numbers = numbers_of(X, self._columns)
        self._factors = learned(X, self._columns)
        warn_of_unidentified(self._factors, numbers, self._row_noise)
        codes = [codes_of(X, factor, self._columns) for factor in self._factors]
        weight = check_sample_weight(sample_weight, numbers, dtype=np.float64)
        if np.any(weight < 0.0) or not weight.any():
            raise ValueError(
                "sample_weight must not be negative, and positive in a row at least."
            )
        offset = np.zeros(len(y)) if offset is None else offset
        keys = np.column_stack([y, offset, *codes])
        numbers, keys, weight = canonical_rows(numbers, keys, weight)
        y, offset, codes = keys[:, 0], keys[:, 1], keys[:, 2:].T.astype(int)
        table = Table(numbers, y, weight, offset)
        check_spread(table, self._coefficient_names())
        factors = tuple(
            Factor(code, len(factor.present), factor.columns_of(numbers))
            for factor, code in zip(self._factors, codes, strict=True)
        )
        X = np.column_stack([numbers, np.ones((len(y), int(self.fit_intercept)))])
        return GroupedRows(X, y, weight, factors, offset), table

    def _seen(self, X, reset):
        """X as an array of any type, or the data frame that it is; checks its width."""
        if sparse.issparse(X):
            raise ValueError(
                "X must be dense: hierarchical regressions take no sparse matrix. "
                "Pass X.toarray()."
            )
        if not hasattr(X, "columns"):
            X = check_array(X, dtype=None, ensure_all_finite=False, input_name="X")
        validate_data(self, X, skip_check_array=True, reset=reset)
        return X

    def _coefficient_names(self):
        names = self._feature_names()
        return [names[i] for i in self._columns.numbers]

    def _split(self, X, population):
        """Numeric columns of new rows, and their groups by factor."""
        check_is_fitted(self)
        if not isinstance(population, bool | np.bool_):
            raise ValueError(f"population must be True or False; got {population!r}.")
        X = self._seen(X, reset=False)
        numbers = numbers_of(X, self._columns)
        if population:
            return numbers, [np.full(len(numbers), -1)] * len(self._factors)
        return numbers, [
            codes_of(X, factor, self._columns, self.handle_unknown)
            for factor in self._factors
        ]

    # --- the target

    def _learn_groups(self, rows, table, given):
        """Boost the posterior of grouped rows."""
        unit, level, error = self._units(table)
        prior = clone(as_prior(self.prior))
        marginal = marginal_of(rows, self._likelihood)
        self._cheap = marginal.cheap
        target = HierarchicalTarget(
            marginal,
            prior,
            self._scales(table, prior, unit=unit, level=level),
            self._scale_priors(table, unit),
            _sizes(rows, error),
            self._noise_prior(unit),
        )
        start = self._mode(target, rows, unit, level)
        self._transforms = target.transforms
        return self._boost(target, given, starts=start[None], names=self._names())

    def _noise_prior(self, unit):
        """Of the noise scale, where there is one."""
        return None

    def _scale_priors(self, table, unit):
        """A prior for each scale of group effects, in the unit of the effect."""
        if isinstance(self.scale_prior, ScalePrior):
            prior = clone(self.scale_prior).checked()
            return [prior] * len(self._scale_names())
        _, spread = column_moments(table)
        sizes = [
            unit / np.append(1.0, spread[factor.slopes]) for factor in self._factors
        ]
        return [HalfTPrior(3.0, size) for size in np.concatenate([[], *sizes])]

    def _mode(self, target, rows, unit, level):
        """Where the search starts: the mode from the level of the responses."""
        size = np.sqrt((rows.weight @ rows.X**2) / rows.weight.sum())
        size[size == 0.0] = 1.0
        centre = np.zeros(target.dim)
        width = np.ones(target.dim)
        n = target.n_columns
        width[:n] = unit / (size * np.sqrt(1.0 + rows.weight.sum()))
        if self.fit_intercept:
            centre[n - 1] = level
        centre[n:] = [t.inverse(np.array(0.5 * unit)) for t in target.transforms]
        fewest = min((factor.n_groups for factor in rows.factors), default=0)
        width[n:] /= np.sqrt(1.0 + fewest)
        return highest_point(target, centre, width)

    # --- names

    def _scale_names(self):
        """Of the scales of group effects, factor by factor."""
        names = self._coefficient_names()
        return [
            f"sd({factor.name})" if k is None else f"sd({factor.name}: {names[k]})"
            for factor in self._factors
            for k in (None, *factor.slopes)
        ]

    def _further_names(self):
        return [*self._scale_names(), *filter(None, [self._noise_name])]

    # --- fitted attributes

    def _posterior(self, mixture, names):
        n_scales = len(self._further_names())
        scales = range(mixture.dim - n_scales, mixture.dim)
        positive = Constraints(
            dict(zip(scales, self._transforms, strict=True)), mixture.dim
        )
        return as_posterior(mixture, names, positive if n_scales else None)

    def _fitted(self, posterior):
        linear = posterior.mean()[: posterior.dim - len(self._further_names())]
        coef = linear[: len(self._columns.numbers)].copy()
        return {
            "coef_": coef,
            "intercept_": float(linear[-1]) if len(linear) > len(coef) else 0.0,
        }

    def _fitted_after(self, engine, target, done, names, corrected):
        fitted = super()._fitted_after(engine, target, done, names, corrected)
        # Draws of everything, and what is known of every factor.
        rng = generator(engine.settings.seed, EFFECTS)
        # Whatever the limits of the run were.
        with target.ledger.within(Budget()):
            theta, effects, khat = self._drawn(target, corrected.mixture, rng)
        coef, levels, *noise = target.split(theta)
        scales = np.exp(levels)
        ends = np.cumsum([1 + len(f.slopes) for f in self._factors])[:-1]
        split = np.split(scales, ends, axis=1)
        factors = []
        for factor, draws, scale in zip(self._factors, effects, split, strict=False):
            half = rng.standard_normal((scale.shape[1], len(theta) // 2))
            unseen = scale.T * np.hstack([half, -half])
            factors.append(replace(factor, effects=draws, unseen=unseen))
        model = self._plain(
            n_features=self.n_features_in_,
            numbers=np.array(self._columns.numbers, dtype=int),
            factors=tuple(factors),
            coef=coef,
            noise=np.exp(noise[0]) if noise else None,
        )
        return fitted | {
            "_model": model,
            "_scale_draws": scales,
            "group_levels_": {f.name: levels_of(f) for f in factors},
            "group_effects_": {f.name: f.effects.mean(axis=2) for f in factors},
            "variance_components_": self._variances(fitted["posterior_"]),
            "icc_": self._correlations(model, split),
            "effects_pareto_k_": khat,
        }

    def _drawn(self, target, mixture, rng):
        """Draws of coefficients and scales, of effects, and k-hat of their weights.

        They come in pairs, with the effects on both sides of their mean. Where effects
        are integrated out by Laplace's method, draws are taken anew by weights that
        make them exact.
        """
        sizes = [(1 + len(f.slopes), len(f.present)) for f in self._factors]
        width = 1 + sum(q * n for q, n in sizes)
        n_pairs = int(np.clip(_MOST_NUMBERS // (2 * width), 16, _N_DRAWS // 2))
        theta = mixture.sample(n_pairs, rng)
        normals = tuple(rng.standard_normal((q, n_pairs, n)) for q, n in sizes)
        marginal, given = target.marginal, target.split(theta)
        picked, khat = slice(None), 0.0
        if marginal.exact:
            effects = marginal.effects(normals, *given)
        else:
            effects, log_weights = marginal.weighted_effects(normals, *given)
            smoothed, khat = psis(log_weights.ravel())[:2]
            share = np.exp(smoothed - smoothed.max()).cumsum()
            steps = (rng.random() + np.arange(2 * n_pairs)) / (2 * n_pairs)
            picked = np.searchsorted(share / share[-1], steps)
        # (2, q, n_pairs, n_groups) to (n_groups, q, n_draws).
        flat = [np.concatenate(one, axis=1).transpose(2, 0, 1) for one in effects]
        flat = [np.ascontiguousarray(one[..., picked]) for one in flat]
        return np.tile(theta, (2, 1))[picked], flat, float(khat)

    def _variances(self, posterior):
        """Standard deviations of effects and noise, with their 90 % intervals."""
        names = self._further_names()
        some = slice(posterior.dim - len(names), None)
        low, high = posterior.interval(0.9)[some].T
        columns = {"mean": posterior.mean()[some], "std": posterior.std()[some]}
        return summary_table(columns | {"5%": low, "95%": high}, names)

    def _correlations(self, model, scales):
        """Share of the variance that the intercepts of a factor make up."""
        intercepts = [scale[:, 0] ** 2 for scale in scales[: len(model.factors)]]
        total = self._residual_variance(model) + sum(intercepts)
        return {
            factor.name: float((variance / total).mean())
            for factor, variance in zip(model.factors, intercepts, strict=True)
        }

    # --- what all of them answer

    @property
    def _n_further(self):
        """Scales of effects and noise: they have no part in the linear predictor."""
        return self.posterior_.dim - self._model.coef.shape[1]

    @property
    def _has_intercept(self):
        """Whether the fit has an intercept, whatever the parameter says by now."""
        return self._model.coef.shape[1] > len(self._model.numbers)

    @property
    def _layout(self):
        check_is_fitted(self)
        return Layout(tuple(self._coefficient_names()), self._has_intercept)

    def _served(self):
        return self._model

    def group_effects_interval(self, level=0.9):
        """Central credible intervals of the group effects.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability inside, in (0, 1).

        Returns
        -------
        dict
            By factor an ndarray of shape (n_groups, n_effects, 2), lower and upper
            ends; groups are those of ``group_levels_``, effects the intercept's and
            then the slopes'.
        """
        check_is_fitted(self)
        tails = tails_of(level)
        return {
            factor.name: np.moveaxis(np.quantile(factor.effects, tails, axis=2), 0, -1)
            for factor in self._model.factors
        }

    def coef_interval(self, level=0.9):
        """Central credible intervals of the coefficients.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability inside, in (0, 1).

        Returns
        -------
        ndarray of shape (n_numeric_features, 2)
            Lower and upper ends.
        """
        check_is_fitted(self)
        return self.posterior_.interval(level)[: len(self.coef_)]

    def sample_posterior(self, n=1, random_state=None):
        """Draws of everything, group effects included.

        Parameters
        ----------
        n : int, default=1
            Up to 1,024 they are different draws; of very many groups fewer are kept.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        dict
            ``"coef"`` (n, n_numeric_features), ``"intercept"`` (n,), ``"scales"``, a
            dict from the names of ``variance_components_`` to (n,), and
            ``"group_effects"``, a dict by factor to (n, n_groups, n_effects).
        """
        check_is_fitted(self)
        check_size("n", n)
        model, rng = self._model, as_generator(random_state)
        kept = len(model.coef)
        picked = rng.choice(kept, n, replace=n > kept)
        coef = model.coef[picked]
        n_numbers = len(model.numbers)
        scales = self._scale_draws[picked]
        if model.noise is not None:
            scales = np.column_stack([scales, model.noise[picked]])
        names = self.posterior_.names[coef.shape[1] :]
        return {
            "coef": coef[:, :n_numbers],
            "intercept": coef[:, -1] if self._has_intercept else np.zeros(n),
            "scales": dict(zip(names, scales.T, strict=True)),
            "group_effects": {
                f.name: np.moveaxis(f.effects[..., picked], -1, 0)
                for f in model.factors
            },
        }


def _sizes(rows, error):
    """Effects as large as their errors would be if every group stood alone."""
    return [
        error / np.sqrt(max(rows.weight @ column**2 / factor.n_groups, 1e-300))
        for factor in rows.factors
        for column in factor.columns.T
    ]
