"""Any log density: the engine of the estimators behind one function."""

import warnings
from numbers import Integral

import numpy as np

from skboost._parameters import known_parameters
from skboost._random import root_seed
from skboost._sklearn import Interval, StrOptions, validate_params
from skboost._starting_points import starting_points, with_placed_cuts
from skboost.approximation import warn_of_wrong_gradient
from skboost.boosting import SurrogateBoosting
from skboost.families import MAX_FULL_DIM
from skboost.fitting import (
    BOOSTING_CONSTRAINTS,
    GOES_ON,
    INIT,
    BoostingResult,
    Checkpoint,
    FitInterrupted,
    FunctionObserver,
    Options,
    RunInterrupted,
    RunKeeper,
    boost,
    make_engine,
    make_limits,
    run_of,
    seed_of,
    warn_unfinished,
    with_search,
)
from skboost.posterior import check_names
from skboost.targets import (
    CallableTarget,
    FailedEvaluationWarning,
    SlowPoints,
    TransformedTarget,
)
from skboost.transforms import Constraints

_LACKING = "temperature", "warm_start"
_CONSTRAINTS = {
    **{k: v for k, v in BOOSTING_CONSTRAINTS.items() if k not in _LACKING},
    "log_density": [callable],
    "dim": [Interval(Integral, 1, None, closed="left")],
    "gradient": [callable, None],
    "value_and_gradient": [callable, None],
    "x0": ["array-like", tuple, None],
    "vectorized": ["boolean", None],
    # Checked in full where it is read.
    "constraints": "no_validation",
    "failures": [StrOptions({"raise", "zero"})],
    "warp": [StrOptions({"auto"}), None],
    "surrogate": [StrOptions({"auto"}), None],
    "max_evaluations": [Interval(Integral, 1, None, closed="left"), None],
    "callback": [callable, Checkpoint, list, tuple, None],
    "names": ["array-like", None],
    "init": INIT,
    "start": [BoostingResult, None],
}

# Seconds of evaluations one by one that are worth a word.
_LONG = 2.0


@known_parameters
@validate_params(_CONSTRAINTS, prefer_skip_nested_validation=True)
def boost_posterior(
    log_density,
    dim,
    *,
    gradient=None,
    value_and_gradient=None,
    x0=None,
    constraints=None,
    vectorized=None,
    failures="raise",
    names=None,
    max_iter="auto",
    tol="auto",
    max_time=None,
    max_evaluations=None,
    random_state=None,
    n_jobs=None,
    start=None,
    verbose=0,
    callback=None,
    warp=None,
    surrogate=None,
    family="gaussian",
    init="all",
    objective="kl",
    step_size="line-search",
    corrective="fully-corrective",
    search="greedy",
    orbit="auto",
):
    """Approximate any posterior by a mixture, from its unnormalised log density.

    Parameters
    ----------
    log_density : callable
        Takes (n, dim) and returns (n,), or takes (dim,) and returns a number; -inf
        is legal. Written with ``autograd.numpy``, or any function with `gradient`.
    dim : int
        Dimension of the parameter.
    gradient : callable, default=None
        Gradient of `log_density`, of the shape of its argument; None asks autograd.
    value_and_gradient : callable, default=None
        Returns what `log_density` and `gradient` return, as a pair, in place of
        `gradient`: with `gradient` the density is evaluated twice wherever both are
        needed.
    x0 : array-like of shape (dim,) or (n_starts, dim), or tuple (low, high), \
            default=None
        Where the first components are looked for: a point, several, or a box in which
        starts are drawn until new ones lead to no new mode for long. The run begins
        with a component at every mode that is found. None is the origin. Under
        `constraints` inside of them: a box may touch their ends, its points are divided
        by their sum for a simplex, sorted where ordered and shrunk where correlations
        are impossible, and None is the image of the origin (1 for ``"positive"``, the
        middle of an interval, the centre of a simplex, no correlation).
    constraints : dict, str, tuple or sequence, default=None
        Where coordinates are not free: a dict ``{coordinate: constraint}``, a
        coordinate being an index, one of `names`, or a tuple or range of these, and a
        constraint ``"positive"``, ``"unit_interval"``, ``(low, high)`` with None for
        an open end, ``"periodic"`` for an angle from 0 to 2 pi (``("periodic", low,
        high)`` for another period), ``"simplex"``, ``"ordered"`` or ``"correlation"``.
        A circle is cut where the density is low, which costs 64 evaluations and a climb
        for each of up to eight starts; means and standard deviations on it are
        circular, and its intervals arcs. A string or a tuple (low, high) alone is for
        all coordinates; a sequence of length `dim` has one entry for each. Details:
        `Constraints`. `log_density`, `gradient`, `x0`, `names`, and the posterior are
        on your scale; the Jacobian is added for you. On a simplex the density is that
        of all coordinates but the last, as in Stan.
    vectorized : bool, default=None
        Whether `log_density` takes batches; None finds out by comparing a batch with
        its rows. One that does is often ten to a hundred times faster.
    failures : {"raise", "zero"}, default="raise"
        What to do where the density fails at a draw of the mixture (an exception,
        NaN or +inf): an error with the point, or a density of zero there, with one
        warning at the end. Searches step back from such points in either case.
    names : sequence of str, default=None
        Names of the coordinates.
    max_evaluations : int, default=None
        Evaluations of `log_density`, with or without gradient. It binds within an
        iteration: a batch that does not fit in is not begun, the iteration is given
        up, and what is reported was evaluated before. Where the first component does
        not fit in, it is cut short and judged by as few draws as are left, never
        fewer than 16: ``history[0]["cut_short"]``, and a ConvergenceWarning. Half of
        the evaluations at most are spent on modes in a box.
    n_jobs : int, default=None
        Processes over fixed chunks of draws; worth it where one evaluation takes
        milliseconds. The result does not depend on it.
    start : BoostingResult, default=None
        A result to go on with: a run of `max_iter` iterations in all, the same as one
        that had begun with that number. `log_density`, `dim`, `family`, `objective`,
        `constraints` and `warp` are those of the call before, and so is the seed,
        whatever `random_state` is; `tol` may be another one. Results that were
        pickled or loaded hold no run. `max_evaluations` counts those before, too.
    verbose : int, default=0
        1 shows the ELBO, the KL that is left, components and evaluations after every
        iteration, 2 also the step, its gain and its seconds: records at INFO and DEBUG
        of the logger ``"skboost"``, which go to the standard error then. They are
        made in any case, so ``logging`` may send them elsewhere. In a terminal a bar
        moves below them, where `rich` is installed (extra ``progress``): iterations,
        seconds or evaluations, whichever is nearest to its limit.
    callback : callable, Checkpoint or list of these, default=None
        Called with a dict per iteration, as in ``history``; True stops the run. Or a
        `skboost.callbacks.Checkpoint`, which keeps the run on disk. All of a list are
        called in its order; one of it may be a checkpoint.
    warp : {"auto"} or None, default=None
        "auto" fits a map of the unconstrained coordinates after the first component,
        one that bends, scales and skews it (a banana and a funnel are such maps of a
        Gaussian), and goes on with boosting behind it. Where it gains no more than
        `tol`, or less than a second component would, it is declined and the run goes
        on as without; the result's ``warp`` says which. Needs ``family="gaussian"``
        with full covariances. See :doc:`/user_guide/warp`.
    surrogate : {"auto"} or None, default=None
        "auto" is for a density of two to twelve coordinates that takes a millisecond
        or more a point: some 200 to 1,000 evaluations in place of 10^5. A Gaussian near
        the mode is judged by draws; only where these see more than `tol` left, a
        surrogate (a quadratic and a Gaussian process) is fitted to all that was
        evaluated, boosting runs on it, and draws of its result, at which the density
        is evaluated, judge it and refine the next surrogate. An iteration is such a
        round. Without a gradient values alone do; the climb to the mode then takes
        differences. All that is reported comes from true values at fresh draws.
        Orbits are those of the surrogate, of four images at most; `warp` has
        to be None. See :doc:`/user_guide/dear_densities`.
    init : {"all", "single"}, default="all"
        "all" begins with a component at every mode that climbs from `x0` and from
        around the mixture lead to. "single" is Algorithm 1 of the papers: one component
        at one point, and all others by its own search; modes are never looked for.
    random_state, max_iter, tol, max_time, family, objective, step_size, corrective, \
    search, orbit
        As in `BoostedBayesianLogisticRegression`, with the same defaults.

    Returns
    -------
    BoostingResult

    Raises
    ------
    ValueError
        For parameters that mean nothing, such as ``init="single"`` with several points
        as `x0`, and where the density returns NaN, +inf or
        a wrong shape or fails (`LogDensityError`, with the point), is zero at every
        start, or rises without end.
    FitInterrupted
        For a KeyboardInterrupt (Ctrl-C) after the first iteration: its ``result`` is
        that of the iterations done. Before that a plain KeyboardInterrupt.

    Warns
    -----
    FailedEvaluationWarning
        With ``failures="zero"``, once, with the number of failures and the first.
    UserWarning
        If finite differences of the density disagree with its gradient at every one of
        a few points, and after two seconds of evaluations if most are spent on a
        density that takes one point at a time: what an iteration takes at least, and
        how much faster batches would be.
    ConvergenceWarning
        If more than half a nat of KL is estimated to remain, if limits cut the first
        component short, or if the posterior seems to be improper, or values of the
        density contradict its gradient where they are largest: large terms that cancel
        leave noise.

    References
    ----------
    Locatello et al. 2018, Algorithm 1; Dresdner et al. 2021, Algorithms 1 and 2.

    Examples
    --------
    >>> import autograd.numpy as np
    >>> from skboost import boost_posterior
    >>> def log_density(theta):
    ...     return np.logaddexp(-2 * (theta[:, 0] + 2) ** 2, -((theta[:, 0] - 2) ** 2))
    >>> result = boost_posterior(log_density, dim=1, random_state=0)
    >>> result.posterior.n_components >= 2
    True
    """
    params = {
        "max_iter": max_iter, "tol": tol, "max_time": max_time, "family": family,
        "objective": objective, "step_size": step_size, "corrective": corrective,
        "search": search, "orbit": orbit, "warp": warp, "surrogate": surrogate,
        "dim": dim, "x0": x0, "constraints": constraints, "names": names,
        "failures": failures, "init": init, "random_state": random_state,
    }  # fmt: skip
    observer = _observer(callback, params, start)
    names = check_names(names, dim)
    seed = root_seed(random_state) if start is None else seed_of(start)
    constraints = Constraints(constraints, dim, names)
    starts, box = starting_points(x0, constraints, seed)
    probe = _probe(None if x0 is None else starts, constraints)
    target = CallableTarget(
        log_density, dim, gradient, vectorized, n_jobs, probe, failures,
        value_and_gradient=value_and_gradient,
    )  # fmt: skip
    slow = _watched(target, vectorized)
    placed = with_placed_cuts(target, constraints, starts, surrogate, max_evaluations)
    if placed is not constraints:
        constraints, (starts, box) = placed, starting_points(x0, placed, seed)
    if not constraints.trivial:
        target = TransformedTarget(target, constraints)
        probe = constraints.inverse(probe)
    engine = _engine(target, params, starts, seed, box)
    if surrogate is None:
        slow.draws = engine.settings.n_draws + engine.settings.n_fresh
    else:
        # Every evaluation is dear.
        probe = probe[: gradient is not None or value_and_gradient is not None]
    if len(probe):
        warn_of_wrong_gradient(target, probe, 5, constraints.forward)
    now = engine, target, constraints, warp
    previous = None if start is None else run_of(start, *now)
    options = Options(
        engine, make_limits(params, max_evaluations or np.inf), previous, GOES_ON,
        warp, orbit, names, constraints, verbose=verbose,
    )  # fmt: skip
    fit = _boosted(target, options, observer)
    # A surrogate chooses its draws and its family.
    warn_unfinished(fit, params if surrogate is None else ())
    _warn_of_failures(target, failures)
    return BoostingResult(fit, target)


def _watched(target, vectorized):
    """What tells of slow evaluations one by one, where the user may not know."""
    slow = SlowPoints(_LONG, depth=5)
    if vectorized is None and not target.vectorized:
        target.ledger.before = slow
    return slow


def _boosted(target, options, observer):
    """The fit; an interruption has the result of the iterations that were done."""
    try:
        return boost(target, options, observer)
    except RunInterrupted as error:
        result = BoostingResult(error.fit, target)
        raise FitInterrupted(result.message, result) from error.__cause__


def _engine(target, params, starts, seed, box):
    """The engine of the parameters, on a surrogate where one is asked for."""
    engine = make_engine(target, params, starts, seed, None, box)
    if params["surrogate"] is None:
        family = engine.proposer.family
        if params["warp"] and not (
            family.exact_expectations and family.full_covariance
        ):
            raise ValueError(
                f"warp={params['warp']!r} needs Gaussians with full covariances, which "
                f"family='gaussian' has up to {MAX_FULL_DIM} coordinates; got family="
                f"{params['family']!r} and {target.dim}. Pass that, or warp=None."
            )
        return engine
    # What a surrogate has no evaluations for, or no use.
    with_surrogate = {
        "warp": None, "objective": "kl", "stopping": "gain",
    }  # fmt: skip
    told = with_search(params)
    for name, allowed in with_surrogate.items():
        if told[name] != allowed:
            raise ValueError(
                f"surrogate={params['surrogate']!r} needs {name}={allowed!r}; got "
                f"{name}={told[name]!r}. Pass that, or surrogate=None where many "
                "evaluations are affordable."
            )
    # Reweighting is part of every round.
    return SurrogateBoosting.of(engine, orbit=params["orbit"])


def _warn_of_failures(target, failures):
    if failures == "raise" or not target.n_failures:
        return
    warnings.warn(
        f"log_density failed at {target.n_failures} of {target.n_evaluations} points, "
        f"which were taken for points of zero density. First: {target.first_failure}",
        FailedEvaluationWarning,
        stacklevel=5,
    )


def _probe(starts, constraints):
    """Points inside the constraints at which the functions are tried out.

    Three to five rows: neither one row nor dim rows, so that a function of one point
    can not be mistaken for a function of a batch. Near the starts, where there are.
    """
    n = next(n for n in (3, 4, 5) if n != constraints.dim)
    z = np.random.default_rng(0).standard_normal((n, constraints.n_free))
    if starts is None:
        return constraints.forward(0.1 * z)
    rows = starts[np.arange(n) % len(starts)]
    # Distinct, and no further from a start than it takes.
    return constraints.forward(rows + 1e-3 * np.maximum(1e-3, np.abs(rows)) * z)


def _observer(callback, params, start):
    """What hears of the iterations, and keeps the run on disk where it is asked to."""
    several = isinstance(callback, list | tuple)
    given = callback if several else [] if callback is None else [callback]
    checkpoints = [one for one in given if isinstance(one, Checkpoint)]
    functions = [one for one in given if not isinstance(one, Checkpoint)]
    for one in functions:
        if not callable(one):
            raise ValueError(
                "callback must be a function, a Checkpoint or a list of these; got a "
                f"list with {one!r}."
            )
    if len(checkpoints) > 1:
        raise ValueError(
            f"callback must have at most one Checkpoint; got {len(checkpoints)}. One "
            "file keeps the whole run."
        )
    if checkpoints and start is not None:
        raise ValueError(
            "start and a Checkpoint both hold the run to go on with. Pass one of them."
        )
    # The density is known by its values.
    keepers = [RunKeeper(one, "boost_posterior", params) for one in checkpoints]
    return FunctionObserver(functions, *keepers)
