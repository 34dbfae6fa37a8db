"""What `boost_posterior` returns, also where it was interrupted."""

from dataclasses import asdict
from functools import cached_property

import numpy as np

from skboost._pickles import VersionedPickle
from skboost.fitting._fit import Fit, FromFit, Report
from skboost.fitting._judgement import FoundMode
from skboost.orbits import OrbitReport
from skboost.posterior import (
    as_posterior,
    constraints_from,
    constraints_record,
    orbit_arrays,
    pack_mixtures,
    reading_archive,
    unpack_mixtures,
    with_orbits,
    write_archive,
)
from skboost.warps import WarpReport

# Version 2 adds warps, corrections and intervals.
_FORMAT, _VERSION = "skboost-result", 2
# Of the report, as files and results name them.
_REPORTED = Report._fields
_COUNTS = ("n_evaluations", "n_failures")


class BoostingResult(VersionedPickle):
    """Result of `boost_posterior`.

    All values except `pareto_k` are in nats and use draws that were not seen in
    fitting. `posterior`, `elbo`, `remaining_kl` and their errors, the interval,
    `pareto_k`, `message`, `orbiting` and the counts of evaluations need further
    evaluations, within the limits of the run: they are made once, when the first of
    these is asked for. Until then the result holds the density.

    Attributes
    ----------
    posterior : MixturePosterior
        A `TransformedPosterior` where there are constraints or a warp.
    elbo, elbo_se : float
        Evidence lower bound and its standard error.
    duality_gap, duality_gap_se : float
        Largest over the last proposed component and all that the mixture has
        (Locatello et al. 2018, Lemma 4); a bound under
        ``ResidualGain(early_stopping=False)`` only.
    remaining_kl, remaining_kl_se, pareto_k : float
        Importance-sampling estimate of what the ELBO misses, its standard error, and
        k-hat, the shape of the weights' tail: above 0.7 the estimate is not reliable.
        Blind to what the mixture never reaches.
    remaining_kl_interval : tuple of float
        (low, high) estimate of the remaining error, in nats. What short chains from
        the posterior do not reach is not in it; `high` is inf where nothing is known.
    log_evidence, log_evidence_se : float
        Log of the normalising constant by importance sampling from the mixture and from
        copies of it with heavy tails, and its standard error: inf where weights say
        that it cannot be trusted. Blind to what neither reaches, such as another mode.
    modes_found : tuple of FoundMode
        Where climbs ended, the heaviest first: ``location`` on your scale (a maximum on
        the unconstrained one), the number ``n_climbs`` of them, ``mass``, the share of
        what all these modes hold by draws around each, and whether it is
        ``in_mixture``. Empty where no modes were looked for.
    orbiting : OrbitReport or None
        What orbits gained; None without `orbit`.
    converged : bool
        Whether the stopping rule ended the run, no probe found a mode that the mixture
        lacks, of several modes each was found by more than one climb, and
        `remaining_kl` is at most ten times what `tol` allows; beyond half a nat, or at
        a hard edge of the density, at most that itself.
    message : str
        Why the run ended; it begins with "uncertified" where probes outside the
        mixture found modes that it lacks, together with more than `tol` of the mass.
    n_iter : int
        Iterations done.
    n_evaluations : int
        Points at which the log density was evaluated; with its gradient counts once.
    n_failures : int
        Points at which it failed: raised, was NaN or +inf, or its gradient not finite.
    history : list of dict
        One record per iteration, as in `BoostedBayesianLogisticRegression`.
    stages : tuple of MixturePosterior
        The best posterior known after each iteration, before orbits.
    warp : WarpReport or None
        With ``warp="auto"``: whether there is a warp, what it gains, and why it was
        declined.

    Examples
    --------
    >>> import autograd.numpy as np
    >>> from skboost import boost_posterior
    >>> def log_density(theta):
    ...     return np.sum(2 * theta - np.exp(theta), axis=1)
    >>> result = boost_posterior(log_density, 2, random_state=0)
    >>> result.posterior.mean().round(1)
    array([0.4, 0.4])
    """

    posterior = FromFit("posterior")
    converged = FromFit("converged")
    elbo = FromFit("report.elbo")
    elbo_se = FromFit("report.elbo_se")
    remaining_kl = FromFit("report.remaining_kl")
    remaining_kl_se = FromFit("report.remaining_kl_se")
    remaining_kl_interval = FromFit("report.remaining_kl_interval")
    pareto_k = FromFit("report.pareto_k")
    log_evidence = FromFit("report.log_evidence")
    log_evidence_se = FromFit("report.log_evidence_se")
    modes_found = FromFit("report.modes_found")
    message = FromFit("report.message")
    orbiting = FromFit("report.orbiting")

    def __init__(self, fit, target):
        self._fit, self._target = fit, target
        self.warp, self.history = fit.warp, fit.history
        self.n_iter = fit.n_iter

    def __repr__(self):
        return (
            f"BoostingResult(elbo={self.elbo:.4g}, "
            f"n_components={self.posterior.n_components}, message={self.message!r})"
        )

    @property
    def duality_gap(self):
        return self.history[-1]["gap"]

    @property
    def duality_gap_se(self):
        return self.history[-1]["gap_se"]

    @cached_property
    def n_evaluations(self):
        self._fit.report  # noqa: B018  (its evaluations count)
        return self._target.n_evaluations

    @cached_property
    def n_failures(self):
        self._fit.report  # noqa: B018
        return self._target.n_failures

    @cached_property
    def stages(self):
        names, constraints = self.posterior.names, self.posterior.constraints
        return tuple(as_posterior(q, names, constraints) for q in self._fit.stages)

    def rate_bound(self, curvature=None, *, delta=1.0):
        """Theorem 1 of Locatello et al. 2018 with this run's numbers: an estimate.

        ``2 (C / delta + e) / (delta t + 2)``, t from 0 for the first component, bounds
        by how far an iterate is from the best mixture where steps are predefined or
        searched, and components not refined. It is an ESTIMATE of that bound unless C
        is known, since the error e of the first component is estimated, too: by what
        the posterior gained over it and ``remaining_kl``, the KL to the target.

        Parameters
        ----------
        curvature : float, default=None
            C, a bound on the curvature of the KL. None takes the largest local one of
            the run, which has some under ``step_size="adaptive"``: it can be too small.
        delta : float, default=1.0
            Accuracy in (0, 1] of the search for components: the share of the largest
            duality gap that they reach.

        Returns
        -------
        ndarray of shape (n_iter,)
            Nats, after each iteration.

        Raises
        ------
        ValueError
            If `delta` is not in (0, 1], or no `curvature` is given and a step has none.
        """
        _check_share(delta)
        if curvature is None:
            curvature = max(self._curvatures)
        first = self.elbo + self.remaining_kl - self.history[0]["elbo"]
        t = np.arange(len(self.history))
        return 2.0 * (curvature / delta + max(first, 0.0)) / (delta * t + 2.0)

    def adaptive_rate_bound(self, *, delta=1.0, sampling_error=0.0):
        """Theorem 1 of Dresdner et al. 2021 with this run's numbers: an estimate.

        ``4 (1 - delta) E / (t delta (t delta + 1)) + 2 C_t / (delta (t delta + 1)) +
        2 s / t`` for t from 1, the second component, where C_t is the mean of the local
        curvatures so far, E the duality gap of the first component and s the
        `sampling_error`. It is an ESTIMATE of a bound on how far an iterate is from the
        best mixture: E and the curvatures come from draws, and the theorem lets
        s / t^2 bound the error of the draws of step t, which nobody knows.

        Parameters
        ----------
        delta : float, default=1.0
            Accuracy in (0, 1] of the search for components, as in `rate_bound`.
        sampling_error : float, default=0.0
            s, nats.

        Returns
        -------
        ndarray of shape (n_iter - 1,)
            Nats, after each iteration but the first.

        Raises
        ------
        ValueError
            If `delta` is not in (0, 1], or a step has no curvature.
        """
        _check_share(delta)
        curvatures = self._curvatures
        t = np.arange(1, len(curvatures) + 1)
        made = t * delta
        start = 4.0 * (1.0 - delta) * self.history[1]["gap"] / (made * (made + 1.0))
        steps = 2.0 * np.cumsum(curvatures) / t / (delta * (made + 1.0))
        return start + steps + 2.0 * sampling_error / t

    @property
    def _curvatures(self):
        """Of every step after the first component; a ValueError without."""
        seen = [record["curvature"] for record in self.history[1:]]
        if not seen or None in seen:
            raise ValueError(
                "curvature must have been measured in every step, as those of "
                f"step_size='adaptive' with corrective='none' do; got {seen}."
            )
        return np.array(seen)

    def __getstate__(self):
        # All that is computed on demand, in place of the density.
        for name in (*_COUNTS, "stages"):
            getattr(self, name)
        without = {"_target": None, "_fit": self._fit.without_run()}
        return {**super().__getstate__(), **without}

    def save(self, path):
        """Write to `path` (str or path-like): an npz archive without pickled objects.

        Everything is kept, the stages too; a component that several share is stored
        once.
        """
        posterior = self.posterior
        header, arrays = pack_mixtures([p.mixture for p in (posterior, *self.stages)])
        arrays |= orbit_arrays(posterior._mixture)
        values = {name: getattr(self, name) for name in (*_REPORTED, *_COUNTS)}
        orbiting = values["orbiting"]
        values["orbiting"] = None if orbiting is None else asdict(orbiting)
        header |= {
            "names": posterior.names,
            "constraints": constraints_record(posterior.constraints),
            "values": values | {"converged": self.converged, "history": self.history},
            "warp": None if self.warp is None else self.warp.record(),
        }
        write_archive(path, _FORMAT, _VERSION, header, arrays)

    @classmethod
    def load(cls, path):
        """Result that `save` wrote; refuses other files with a ValueError."""
        writer = "BoostingResult.save"
        with reading_archive(path, _FORMAT, _VERSION, writer) as (header, arrays):
            names = header["names"]
            constraints = constraints_from(header["constraints"])
            first, *later = unpack_mixtures(header, arrays)
            mixture, values = with_orbits(first, arrays), header["values"]
            fit = Fit.of_report(
                _report(values),
                posterior=as_posterior(mixture, names, constraints),
                stages=tuple(later),
                history=values["history"],
                ended_well=values["converged"],
                warp=WarpReport.from_record(header.get("warp")),
            )
            result = cls(fit, None)
            vars(result).update({name: values[name] for name in _COUNTS})
            return result


def _report(values):
    """The report that a file holds; those of earlier versions have no corrections."""
    held = {name: values.get(name) for name in _REPORTED}
    held["modes_found"] = tuple(FoundMode(*one) for one in held["modes_found"] or ())
    if held["orbiting"] is not None:
        held["orbiting"] = OrbitReport(**held["orbiting"])
    interval = held["remaining_kl_interval"] or (0.0, float("inf"))
    held["remaining_kl_interval"] = tuple(interval)
    return Report(**held)


# What asks for a run to go on, and what to do where it can not, for messages.
GOES_ON = "start", "Pass start=None."
_SAME = (
    "objective", "family", "constraints", "number of free coordinates",
    "choice of a warp",
)  # fmt: skip


def seed_of(start):
    """The seed of the run that a result holds, with which another goes on."""
    if getattr(start._fit, "run", None) is None:
        raise ValueError(
            "start must be a result whose run is in memory: pickles and files hold "
            "posteriors alone. A skboost.callbacks.Checkpoint keeps the run on disk."
        )
    return start._fit.seed


def run_of(start, engine, target, constraints, warp):
    """The run of a result, to go on with; its evaluations are counted on."""
    before, settings = start._fit, engine.settings
    maps = (None if c.trivial else c for c in (before.constraints, constraints))
    dims = before.mixture.dim, target.dim
    warps = (one is not None for one in (before.warp, warp))
    pairs = *zip(before.kind, engine.kind, strict=True), maps, dims, warps
    for what, (old, new) in zip(_SAME, pairs, strict=True):
        if old != new:
            raise ValueError(
                f"start goes on with the same {what}; got {new} after {old}. "
                f"{GOES_ON[1]}"
            )
    target.ledger.restore(*start._target.ledger.record())
    if (before.tol, before.allowed_kl) == (settings.tol, settings.allowed_kl or 0.0):
        return before.run
    return before.run.reopened()


class FitInterrupted(KeyboardInterrupt):
    """`boost_posterior` was interrupted after at least one iteration.

    Parameters
    ----------
    message : str
    result : BoostingResult
        Of the iterations that were done. The log density was not evaluated again: the
        estimates are from the draws by which the best iteration was judged, and no
        probe looked for modes outside the mixture.
    """

    def __init__(self, message, result):
        super().__init__(message, result)
        self.result = result

    def __str__(self):
        return f"{self.args[0]} The posterior so far is in `.result` of this exception."


def _check_share(delta):
    if not 0.0 < delta <= 1.0:
        raise ValueError(f"delta must be in (0, 1]; got {delta!r}.")
