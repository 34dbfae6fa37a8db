"""From hyperparameters to the engine of a fit, its settings and its limits."""

from dataclasses import replace
from numbers import Integral, Real

from skboost._settings import Settings
from skboost._sklearn import InstanceOf, Interval, Options, StrOptions
from skboost.boosting import COMBINATIONS, TOL, Boosting, BoostingPerScale, allowed_kl
from skboost.families import FAMILIES, Gaussian, VariationalFamily, as_family
from skboost.fitting._stopping import AUTO, Limits
from skboost.frank_wolfe import CORRECTIVE, STEP_SIZES, StepSize
from skboost.objectives import OBJECTIVES, Objective, as_objective
from skboost.orbits import ORDERS, most_images
from skboost.proposals import (
    DensityProposer,
    GreedySearch,
    PropagatedProposer,
    ScaleProposer,
    StochasticProposer,
    StochasticSearch,
    UpdateProposer,
    factor_proposer,
)
from skboost.targets import ScalePrior

# Hyperparameters that are settings of the engine, by the same names.
_SETTINGS = ("n_draws", "n_restarts", "tol", "max_components", "refine")

BOOSTING_CONSTRAINTS = {
    "family": [
        StrOptions(set(FAMILIES)),
        InstanceOf(VariationalFamily, "skboost.families"),
        InstanceOf(Gaussian, "skboost.families"),
    ],
    "objective": [
        StrOptions(set(OBJECTIVES)),
        InstanceOf(Objective, "skboost.strategies"),
    ],
    "step_size": [
        StrOptions(set(STEP_SIZES)),
        Interval(Real, 0, 1, closed="right"),
        InstanceOf(StepSize, "skboost.strategies"),
    ],
    "corrective": [StrOptions(set(CORRECTIVE))],
    "search": [StrOptions({"greedy"}), InstanceOf(GreedySearch, "skboost.strategies")],
    "max_iter": [Interval(Integral, 1, None, closed="left"), StrOptions({AUTO})],
    "tol": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
    "max_time": [Interval(Real, 0, None, closed="neither"), None],
    "orbit": [StrOptions({"auto"}), Options(Integral, set(ORDERS)), None],
    "temperature": [Interval(Real, 0, 1, closed="right")],
    "warm_start": ["boolean"],
    "random_state": ["random_state"],
    "n_jobs": [Integral, None],
    "verbose": ["verbose"],
}

_LEARNED = (
    "search=StochasticSearch needs a fixed prior_scale, as in the papers; got one that "
    "is learned. Pass a number as prior_scale, or search='greedy'."
)

# How a run begins, of densities and mixtures: with a component at every mode or for
# every explanation, or as the papers do.
INIT = [StrOptions({"all", "single"})]


def make_engine(target, params, starts, seed, n_jobs, box=None):
    """The engine for a target and the hyperparameters of `BOOSTING_CONSTRAINTS`.

    `starts` (n_starts, dim), or what finds them, are where searches begin; `n_jobs`
    counts threads over them; in `box` further ones are drawn.

    Raises
    ------
    ValueError
        For a combination that means nothing; it names both parameters.
    """
    check_together(params)
    params = with_search(params)
    objective, family = _asked(params["objective"], params["family"], target.dim)
    combination = COMBINATIONS[objective.combination]
    exact = objective.uses_expectations and target.exact_gaussian
    exact = exact and family.exact_expectations
    settings = make_settings(params, seed, n_jobs, target.dim, exact)
    if params["tol"] == "auto":
        settings = replace(settings, allowed_kl=allowed_kl(target))
    # Only objective="kl" with stopping="gain" ends by what orbits leave.
    by_number = params.get("stopping", "gain") == "gain" and _gains(objective, None)
    if params["tol"] == "auto" or by_number:
        settings = replace(settings, max_order=most_images(params.get("orbit")))
    if params.get("init") == "single":
        check_single(starts, box)
        settings = replace(settings, search_modes=False)
    parts = family, objective, starts, box
    combined = combination.of(params["step_size"], params["corrective"])
    search = params.get("search")
    if isinstance(search, StochasticSearch):
        return _stochastic(target, search, parts, combined, settings)
    return _engine_of(target, parts, combined, settings)


def with_search(params):
    """Hyperparameters, those of the search among them under their own names."""
    search = params.get("search")
    if search == "greedy":
        search = GreedySearch()
    return params if search is None else search.settings() | params


def check_together(params):
    """Refuse hyperparameters of which one leaves another without a meaning, by name."""
    search = params.get("search")
    if "proposal" in params:
        factor_proposer(params["proposal"], search)
    if "objective" not in params:
        return
    objective, family = _asked(params["objective"], params["family"], 1)
    if isinstance(search, GreedySearch):
        search.check(family)
    params = with_search(params)
    for name, allowed in COMBINATIONS[objective.combination].allowed.items():
        if params[name] not in allowed:
            raise ValueError(
                f"objective={params['objective']!r} needs {name} to be one of "
                f"{list(allowed)}; got {name}={params[name]!r}. Use objective='kl' for "
                "the other values."
            )
    if not isinstance(search, StochasticSearch):
        return
    if search.residual == "elementwise" and not objective.uses_expectations:
        raise ValueError(
            "search=StochasticSearch(residual='elementwise') needs objective='kl' or "
            f"'relbo'; got objective={params['objective']!r}, whose mixtures have no "
            "marginals of that kind. Choose one of these, or residual='joint'."
        )
    scale = params.get("prior_scale")
    if isinstance(scale, ScalePrior) or (isinstance(scale, str) and scale == "learn"):
        raise ValueError(_LEARNED)


def check_single(starts, box):
    """Refuse to begin with one component at several places."""
    if box is None and len(starts) == 1:
        return
    came = f"{len(starts)} points" if box is None else "a box"
    raise ValueError(
        "init='single' begins with one component, and needs x0 to be one point of "
        f"shape (dim,) or None; got {came}. Pass one of them, or init='all' for a "
        "component at every mode."
    )


def _asked(objective, family, dim):
    """The objective and the family that are meant."""
    objective = as_objective(objective)
    return objective, objective.component_family(as_family(family, dim))


def _any(objective, settings):
    return True


def _on_simplex(objective, settings):
    return objective.uses_expectations


def _gains(objective, settings):
    # Objectives with square roots, or that seek no gain, start as their papers do.
    return objective.uses_expectations and objective.seeks_gain


def _refines(objective, settings):
    return _gains(objective, settings) and settings.refine


# What is asked of an objective and of settings, the oracle, which says itself what
# targets and families it serves, and the engine: the first that does is taken.
_ENGINES = (
    (_on_simplex, ScaleProposer, BoostingPerScale),
    (_any, ScaleProposer, Boosting),
    (_refines, PropagatedProposer, Boosting),
    (_gains, UpdateProposer, Boosting),
    (_any, DensityProposer, Boosting),
)


def _engine_of(target, parts, combination, settings):
    """The engine that begins as the target allows."""
    family, objective, *_ = parts
    oracle, engine = next(
        (oracle, engine)
        for needs, oracle, engine in _ENGINES
        if needs(objective, settings) and oracle.serves(target, family)
    )
    if settings.allowed_kl is not None and oracle.spans:
        settings = replace(settings, allowed_kl=allowed_kl(target, spanned=True))
    return engine(oracle(*parts), combination, settings)


def _stochastic(target, search, parts, combination, settings):
    """The engine whose every component is searched by stochastic gradients."""
    if target.scale_prior is not None:
        raise ValueError(_LEARNED)
    settings = replace(settings, keep_best=search.select == "elbo")
    return Boosting(StochasticProposer(*parts, search), combination, settings)


def make_settings(params, seed, n_jobs=None, dim=1, exact=False):
    """Settings of a run; parameters that a model lacks have their defaults.

    `dim` limits what fresh draws take of memory; `exact` says that closed expectations
    are used.
    """
    chosen = {name: params[name] for name in _SETTINGS if name in params}
    if chosen.get("tol") == "auto":
        chosen["tol"] = TOL
    n_draws, two_each = chosen.get("n_draws", Settings.n_draws), dim * (dim + 3)
    # Draws of a component whose expectations need none cost no evaluations and serve
    # the overlap of components alone, so that four times as many are affordable where
    # they are then at least two for each parameter of a full covariance, and were fewer
    # before.
    if exact and n_draws < two_each <= 4 * n_draws:
        chosen["n_draws"] = 4 * n_draws
    # Fresh draws that need no evaluations are limited by memory only.
    free = (1 << 21) // dim if exact else 0
    n_fresh = max(4 * n_draws, min(16 * n_draws, free))
    return Settings(n_fresh=n_fresh, seed=seed, n_jobs=n_jobs, exact=exact, **chosen)


def make_limits(params, max_evaluations=float("inf")):
    """When a run with these hyperparameters ends."""
    tol = TOL if params["tol"] == "auto" else params["tol"]
    stopping = with_search(params).get("stopping", "gain")
    limits = params["max_iter"], stopping, tol, params["max_time"]
    return Limits(*limits, max_evaluations)
