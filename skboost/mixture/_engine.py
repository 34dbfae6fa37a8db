"""What a boosted mixture is fitted to, and by what."""

from copy import copy
from dataclasses import replace

import numpy as np

from skboost._random import SEARCH, generator
from skboost.boosting import Boosting, SimplexCombination
from skboost.conjugate import ConjugateTarget, GaussianMixtureModel, SharedPrior, start
from skboost.fitting import make_settings
from skboost.mixture._priors import mixture_settings, moments, shares
from skboost.mixture._shared import shared_prior
from skboost.mixture._starts import any_given, started
from skboost.proposals import ConjugateProposer

# Draws kept of a component: each takes the densities of all rows under all clusters.
_N_DRAWS = 256
# Densities of rows under clusters that all draws of a judgement may take.
_MOST_ENTRIES = 1 << 22


class Explaining(Boosting):
    """A run that ends with its first mixture, which no draws that judge it chose."""

    held_draws_are_new = True


def target_of(estimator, n_components, X, weight):
    """The target of rows under the priors of that many clusters."""
    one = copy(estimator).set_params(n_components=n_components)
    model = GaussianMixtureModel(**mixture_settings(one, moments(X, weight)))
    return target_under(one, model, X, weight)


def target_under(estimator, model, X, weight):
    """The target of rows under a model, what its clusters share integrated out."""
    shared = None
    if shares(estimator):
        dof = estimator.degrees_of_freedom_prior
        shared = shared_prior(estimator, model.settings, dof)
    return ConjugateTarget(model, model.rows(X), weight, estimator.n_jobs, shared)


def engine_of(estimator, found, target, params, starts, seed, n_jobs):
    """The engine of a run that begins with what was found, if anything was."""
    told = {"refine": False, "n_draws": _N_DRAWS}
    settings = make_settings({**params, **told}, seed, n_jobs)
    engine = Boosting
    single = params["init"] == "single"
    if params["tol"] == "auto" and not single:
        # A posterior of many rows is nearly a product: few draws judge it.
        entries = len(target.weight) * target.model.n_components
        n = int(np.clip(_MOST_ENTRIES / entries, 128, 256))
        few = {"n_draws": _N_DRAWS // 2, "n_fresh": n}
        engine, settings = Explaining, replace(settings, allowed_kl=0.0, **few)
    init, first = params["init_params"], None
    if any_given(estimator):
        first = start(target, init, generator(seed, 0, SEARCH, 0))
        first = started(estimator, target.model, target.rows, target.weight, first)
    return engine(
        ConjugateProposer(init, first, found, 1 if single else None),
        SimplexCombination.of(params["step_size"], params["corrective"]),
        settings,
    )


def check_gibbs(estimator, model, rows, weight):
    """Refuse what the chains do not know."""
    complete = rows.patterns is None or model.clusters.covariance.counts_entries
    whole = np.array_equal(weight, np.floor(weight)) and model.temperature == 1.0
    if SharedPrior.fixed(model.settings).stacks and complete and whole:
        return
    raise ValueError(
        "posterior='gibbs' needs a Dirichlet distribution of weights, 'full', 'diag' "
        "or 'spherical' covariances under mean_prior_type='normal-wishart', "
        "temperature=1, whole numbers as sample weights, and no missing values but "
        f"under 'diag'; got {estimator!r}. Use posterior='variational'."
    )
