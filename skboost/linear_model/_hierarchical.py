"""What the hierarchical regressions share: groups of rows and their effects."""

from dataclasses import replace
from numbers import Integral

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skboost._budget import Budget
from skboost._parameters import keeps_parameters
from skboost._sklearn import InstanceOf, StrOptions
from skboost.boosting import (
    Boosting,
    LatticeBoosting,
    SimplexCombination,
    SurrogateBoosting,
    WeightedBoosting,
    allowed_kl,
)
from skboost.families import as_family
from skboost.fitting import make_settings, warn_where_called
from skboost.linear_model._formula_estimator import FormulaEstimator
from skboost.linear_model._group_model import N_DRAWS, group_model
from skboost.linear_model._group_summary import (
    drawn_by_name,
    summary_of_groups,
    table_of_effects,
)
from skboost.linear_model._groups import (
    ReadOnce,
    codes_of,
    counted_factors,
    narrowed,
    numbers_of,
    seen,
)
from skboost.linear_model._methods import tails_of
from skboost.linear_model._model import SCALED_CONSTRAINTS
from skboost.linear_model._row_keywords import (
    checked_offset,
    checked_trials,
    warn_of_missing_offset,
)
from skboost.objectives import JointGain
from skboost.orbits import AUTO_ORDER
from skboost.posterior import arviz_groups, as_generator, check_size
from skboost.proposals import DensityProposer
from skboost.targets import LKJPrior, ScalePrior

# Where every evaluation is dear, "auto" is this many nats: some hundred draws, of which
# an evaluation each is spent, tell no less from noise.
_DEAR_TOL = 0.02

# Where sums take the place of draws a component costs next to nothing, and half of the
# `TOL` of all others is left.
_LATTICE_TOL = 0.005

# Coordinates up to which weighted draws say what a density is like.
_MOST_WEIGHTED = 16

# By how much fewer draws of effects there are after limits cut a run: each may take as
# long as an evaluation.
_FEWER = 8

# Share of the draws below which a warning says how few are effective.
_FEW_EFFECTIVE = 0.5

HIERARCHICAL_CONSTRAINTS = {
    name: SCALED_CONSTRAINTS[name]
    for name in (
        "formula", "missing", "fit_intercept", "intercept_scale", "max_iter", "tol",
        "max_time", "random_state", "n_jobs", "verbose",
    )
} | {
    # No prior by column.
    "prior": SCALED_CONSTRAINTS["prior"][:2],
    # No common scale of the coefficients is learned beside those of effects.
    "prior_scale": [StrOptions({"auto"}), *SCALED_CONSTRAINTS["prior_scale"][2:]],
    "groups": ["array-like", str, Integral, None],
    "slopes": [dict, None],
    "correlated": ["boolean", dict, InstanceOf(LKJPrior, "skboost.priors")],
    "group_intercepts": ["boolean", dict],
    "fixed": ["array-like", str, Integral, None],
    "nested": ["array-like", None],
    "scale_prior": [
        StrOptions({"half_t"}), dict, InstanceOf(ScalePrior, "skboost.priors")
    ],
    "handle_unknown": [StrOptions({"warn", "population", "error"})],
}  # fmt: skip


class HierarchicalEstimator(FormulaEstimator):
    """A boosted posterior over coefficients and scales, and effects of groups.

    Subclasses read responses.
    """

    _parameter_constraints = HIERARCHICAL_CONSTRAINTS
    warm_start = False
    _elsewhere = FormulaEstimator._elsewhere | {
        "warm_start": "Give set_callbacks a skboost.callbacks.Checkpoint(path): the "
        "same fit with a larger max_iter goes on from its file."
    }
    _takes_groups = True
    _said_by_formula = dict.fromkeys(("groups", "slopes", "nested", "fixed")) | {
        "group_intercepts": True, "fit_intercept": True,
    }  # fmt: skip

    @keeps_parameters
    def __init__(
        self,
        *,
        formula=None,
        groups=None,
        slopes=None,
        correlated=True,
        group_intercepts=True,
        fixed=None,
        nested=None,
        scale_prior="half_t",
        prior="normal",
        prior_scale="auto",
        fit_intercept=True,
        intercept_scale="auto",
        handle_unknown="warn",
        missing="raise",
        max_iter="auto",
        tol="auto",
        max_time=None,
        random_state=None,
        n_jobs=None,
        verbose=0,
    ):
        pass

    def _learn_groups(self, grouped, response, exposed, data):
        """Boost the posterior of grouped rows, and draw the effects of groups."""
        model = group_model(self, grouped, response, exposed)
        target, starts = model.begun(grouped.rows, Budget(self.max_time))
        # A surrogate has orbits of its own: the target would be evaluated at them.
        orbit = None if target.marginal.cost == "much" else "auto"
        posterior, constraints = model.posterior_of(target)
        return self._boost(
            target,
            data,
            lambda fit: _attributes(model, fit),
            starts=starts,
            names=model.layout.names,
            constraints=constraints,
            posterior=posterior,
            engine_of=_engine,
            params=self.get_params(deep=False) | {"orbit": orbit},
        )

    # --- what all of them answer

    @property
    def coef_(self):
        """Posterior means of the coefficients of the population."""
        check_is_fitted(self)
        return self._model_.layout.split(self.posterior_.mean())[0][0]

    @property
    def intercept_(self):
        """Posterior mean of the intercept of the population."""
        check_is_fitted(self)
        return float(self._model_.layout.split(self.posterior_.mean())[1][0])

    @property
    def variance_components_(self):
        """Standard deviations of effects and noise and correlations: a table."""
        check_is_fitted(self)
        return self._model_.variances(self.posterior_)

    def _numbers_and_groups(self, X, population, groups):
        """Numeric columns of new rows, and their groups by factor."""
        if not isinstance(population, bool | np.bool_):
            raise ValueError(f"population must be True or False; got {population!r}.")
        check_is_fitted(self)
        model, columns = self._model_, self._model_.columns
        counted = counted_factors(groups, model.factors)
        read = () if population else counted
        X, place = self._made(X, {factor.name for factor in read}), None
        if len(read) < len(model.factors):
            X, place = narrowed(X, columns, read)
        if place is None:
            X = seen(self, X, reset=False)
        X, unknown = ReadOnce(X, place), self.handle_unknown
        numbers = numbers_of(X, columns)
        codes = dict.fromkeys((f.name for f in counted), np.full(len(numbers), -1))
        codes |= {f.name: codes_of(X, f, columns, unknown) for f in read}
        return numbers, [codes.get(factor.name) for factor in model.factors]

    def _asked(
        self, X, offset=None, exposure=None, *, population=False, groups="all", **_
    ):
        """What answers about rows, the same to all questions; and numeric columns,
        groups and offsets of these.
        """
        check_is_fitted(self)
        X, offset, exposure = self._found(X, offset=offset, exposure=exposure)
        numbers, codes = self._numbers_and_groups(X, population, groups)
        offset = checked_offset(offset, exposure, len(numbers))
        model = self._model_
        warn_of_missing_offset(model.exposed, offset, model.response.counted)
        return self._draws, (numbers, codes, offset)

    def _predictive(self):
        """What answers about rows."""
        check_is_fitted(self)
        return self._draws

    # --- responses under draws; see `skboost.linear_model._drawn`

    def _drawn(self, n, rng, reported=False):
        """Places of draws among those that are kept, of which there is one kind."""
        check_size("n", n)
        kept = len(self._predictive().scales)
        if n > kept:
            # All of them, as often as each other.
            return np.resize(rng.permutation(kept), n)
        return rng.choice(kept, n, replace=False)

    def _responses(self, drawn, X, trials=None, **keywords):
        X, trials = self._named_in(X, trials=trials)
        trials = None if trials is None else checked_trials(X, trials)
        predictive, rows = self._asked(X, **keywords)
        model, response = predictive.model, self._model_.response
        noise = None if model.noise is None else model.noise[drawn]
        shared = replace(model, coef=model.coef[drawn], noise=noise)
        for some, eta in model.predictors(*rows):
            responses = response.drawn(shared, eta[:, drawn])
            yield some, responses if trials is None else responses.tried(trials[some])

    _named = drawn_by_name

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
        tails, factors = tails_of(level), self._predictive().model.factors
        return {
            factor.name: np.moveaxis(
                np.quantile(factor.fitted_effects, tails, axis=2), 0, -1
            )
            for factor in factors
        }

    def group_effects_table(self, level=0.9):
        """Effects of all groups with their names, one row for each.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability inside the intervals, in (0, 1).

        Returns
        -------
        pandas.DataFrame, or a structured ndarray where pandas is not installed
            Columns ``factor``, ``level`` (the group), ``effect`` ("intercept", or the
            column of a slope), ``mean``, ``std``, ``lower`` and ``upper``.
        """
        self._predictive()
        return table_of_effects(self, level)

    def summary(self, level=0.9):
        """What was found, in the manner of lme4: a text when printed.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability inside the intervals, in (0, 1).

        Returns
        -------
        GroupSummary
            ``coefficients`` and ``variance_components`` are its tables.
        """
        tails_of(level)
        self._predictive()
        return summary_of_groups(self, level)

    def to_arviz(self, n=1000, random_state=None, n_chains=4):
        """ArviZ data object with draws of everything (extra ``arviz``).

        Parameters
        ----------
        n : int, default=1000
            Draws in all, rounded up to a multiple of `n_chains`.
        random_state : int, RandomState instance or None, default=None
        n_chains : int, default=4
            Draws are independent; ArviZ's diagnostics ask for chains.

        Returns
        -------
        InferenceData or DataTree
            By the version of ArviZ. Its group ``posterior`` has ``coef`` by feature,
            ``intercept``, the rows of ``variance_components_``, and for each factor
            such as ``effects(county)`` by group and effect.
        """
        per_chain = -(-check_size("n", n) // check_size("n_chains", n_chains))
        drawn = self._drawn(per_chain * n_chains, as_generator(random_state))
        draws, names = self._named(drawn)
        return arviz_groups({"posterior": draws}, n_chains, **names)

    def sample_posterior(self, n=1, random_state=None):
        """Draws of everything, group effects included.

        Parameters
        ----------
        n : int, default=1
            Up to 1,024 they are different draws; of very many groups, and of a fit
            that limits cut short, fewer are kept.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        coef : ndarray of shape (n, n_numeric_features)
        intercept : ndarray of shape (n,)
        scales : dict
            From the names of ``variance_components_`` to ndarrays of shape (n,).
        group_effects : dict
            By factor an ndarray of shape (n, n_groups, n_effects).
        """
        picked, model = self._drawn(n, as_generator(random_state)), self._model_
        return self._draws.taken(picked, model.layout, model.columns.fixed)


def _engine(target, params, starts, seed, n_jobs):
    """Boosting of Gaussians by their joint gain, whose weights are all set anew.

    Where integrals over groups are dear it goes on a surrogate: coordinates are few.
    """
    family = as_family("gaussian", target.dim)
    proposer = DensityProposer(family, JointGain(), starts)
    combination = SimplexCombination.of("line-search", "fully-corrective")
    settings = make_settings(params, seed, n_jobs, target.dim)
    auto, d = params["tol"] == "auto", target.dim
    most_kl = settings.tol
    weighted = d <= _MOST_WEIGHTED
    cost = target.marginal.cost
    if auto and cost != "free":
        # Half of what a Gaussian fitted to 1,000 exact draws would leave.
        most_kl = max(most_kl, d * (d + 3) / 8000)
    if cost != "much" and not target.on_lattice:
        if weighted:
            return WeightedBoosting(proposer, combination, settings, "auto", most_kl)
        settings = replace(settings, max_order=AUTO_ORDER)
        if auto:
            # A density of scales alone has one mode or a few that its first component
            # spans: coefficients, which could part them, are averaged over.
            spanned = target.marginal.integrates_coefficients
            settings = replace(settings, allowed_kl=allowed_kl(target, spanned))
        return Boosting(proposer, combination, settings)
    if auto:
        # A run ends where twice as much is left; a Gaussian fitted to 1,000 exact
        # draws would leave d (d + 3) / 4000.
        settings = replace(settings, tol=max(_DEAR_TOL, d * (d + 3) / 8000))
    parts = proposer, combination, settings, "auto"
    if target.on_lattice:
        # Sums over a lattice cost nothing once they are made: half of `TOL` is left.
        return LatticeBoosting(*parts, _LATTICE_TOL if auto else most_kl)
    if weighted:
        return WeightedBoosting(*parts, dear=True)
    return SurrogateBoosting(*parts)


def _attributes(model, fit):
    """Fitted attributes: effects are drawn at once, fewer after limits cut a run."""
    cut = fit.run.cut_short or fit.run.history[0].cut_short
    n_draws = N_DRAWS // _FEWER if cut else N_DRAWS
    with fit.target.ledger.within(Budget()):
        draws = model.drawn(fit.target, fit.corrected.mixture, fit.seed, n_draws)
    unbounded = False
    if draws.error is not None:
        fit.know_error(draws.error)
        unbounded = not np.isfinite(draws.error.se)
    if draws.efficiency < _FEW_EFFECTIVE or unbounded:
        warn_where_called(_too_few_effective(draws, unbounded), UserWarning)
    # It is made while rows are what they were; nobody waits for its moments.
    fit.posterior  # noqa: B018
    return {"_model_": model, "_draws": draws} | model.attributes(draws)


def _too_few_effective(draws, unbounded):
    """What a user is told of weights that vary much."""
    of_scales = (
        "Scales and coefficients are those of an approximate density, of which nothing "
        "says what it misses: remaining_kl_interval_ has no upper end. "
    )
    return (
        "The importance weights that correct group effects leave "
        f"{100 * draws.efficiency:.0f} % of the draws effective "
        f"(effects_efficiency_), with a Pareto shape of {draws.khat:.2f}: means of "
        "effects and predictions are less exact than the number of draws says. "
        f"{of_scales if unbounded else ''}"
        "Groups with few rows cause it: join rare levels, or drop a factor. Fit "
        "again with another random_state, and report no digits that change."
    )
