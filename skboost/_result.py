"""What `boost_posterior` returns, also where it was interrupted."""

from dataclasses import asdict, dataclass

from skboost._pickles import VersionedPickle
from skboost.calibration import Calibration, SkewReport
from skboost.posterior import (
    MixturePosterior,
    as_posterior,
    constraints_from,
    constraints_record,
    pack_mixtures,
    reading_archive,
    skewed_by,
    skewing_arrays,
    unpack_mixtures,
    write_archive,
)
from skboost.warps import WarpReport

# Version 2 adds warps, corrections and intervals.
_RESULT_FORMAT, _RESULT_VERSION = "skboost-result", 2


@dataclass(frozen=True)
class BoostingResult(VersionedPickle):
    """Result of `boost_posterior`.

    All values except `pareto_k` are in nats and use draws that were not seen in
    fitting.

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
    calibration : Calibration or None
        What became of the correction; None without `calibrate`.
    skewing : SkewReport or None
        What skewing weights gained; None without `skew`.
    converged : bool
        Whether the stopping rule ended the run, and no probe found a mode that the
        mixture lacks.
    message : str
        Why the run ended; it begins with "uncertified" where probes outside the
        mixture found a mode that it lacks, with more than `tol` of the mass.
    n_iter : int
        Iterations done.
    n_evaluations : int
        Points at which the log density was evaluated; with its gradient counts once.
    n_failures : int
        Points at which it failed: raised, was NaN or +inf, or its gradient not finite.
    history : list of dict
        One record per iteration, as in `BoostedBayesianLogisticRegression`.
    stages : tuple of MixturePosterior
        The best posterior known after each iteration, before skewing.
    warp : WarpReport or None
        With ``warp="auto"``: whether there is a warp, what it gains, and why it was
        declined.
    """

    posterior: MixturePosterior
    elbo: float
    elbo_se: float
    duality_gap: float
    duality_gap_se: float
    remaining_kl: float
    remaining_kl_se: float
    pareto_k: float
    converged: bool
    message: str
    n_iter: int
    n_evaluations: int
    n_failures: int
    history: list
    stages: tuple
    warp: WarpReport | None = None
    remaining_kl_interval: tuple = (0.0, float("inf"))
    calibration: Calibration | None = None
    skewing: SkewReport | None = None

    def __repr__(self):
        return (
            f"BoostingResult(elbo={self.elbo:.4g}, "
            f"n_components={self.posterior.n_components}, message={self.message!r})"
        )

    def save(self, path):
        """Write to exactly `path`: an npz archive without pickled objects.

        Everything is kept, the stages too; a component that several of them share is
        stored once.

        Parameters
        ----------
        path : str or path-like
        """
        posteriors = (self.posterior, *self.stages)
        header, arrays = pack_mixtures([p.mixture for p in posteriors])
        arrays |= skewing_arrays(self.posterior._mixture)
        header["names"] = self.posterior.names
        header["constraints"] = constraints_record(self.posterior.constraints)
        header["values"] = {
            name: value
            for name, value in vars(self).items()
            if name not in ("posterior", "stages", "warp")
        }
        for name in ("calibration", "skewing"):
            if header["values"][name] is not None:
                header["values"][name] = asdict(header["values"][name])
        header["warp"] = None if self.warp is None else self.warp.record()
        write_archive(path, _RESULT_FORMAT, _RESULT_VERSION, header, arrays)

    @classmethod
    def load(cls, path):
        """Result that `save` wrote; refuses other files with a ValueError."""
        writer = "BoostingResult.save"
        archive = reading_archive(path, _RESULT_FORMAT, _RESULT_VERSION, writer)
        with archive as (header, arrays):
            constraints = constraints_from(header["constraints"])
            first, *later = unpack_mixtures(header, arrays)
            posterior, *stages = (
                as_posterior(mixture, header["names"], constraints)
                for mixture in (skewed_by(first, arrays), *later)
            )
            values = header["values"]
            # Files of earlier versions have neither.
            if values.get("calibration") is not None:
                values["calibration"] = Calibration(**values["calibration"])
            if values.get("skewing") is not None:
                values["skewing"] = SkewReport(**values["skewing"])
            if "remaining_kl_interval" in values:
                values["remaining_kl_interval"] = tuple(values["remaining_kl_interval"])
            return cls(
                posterior=posterior,
                stages=tuple(stages),
                warp=WarpReport.from_record(header.get("warp")),
                **values,
            )


class FitInterrupted(KeyboardInterrupt):
    """`boost_posterior` was interrupted after at least one iteration.

    Parameters
    ----------
    message : str
    result : BoostingResult
        Of the iterations that were done. The log density was not evaluated again: the
        estimates are from the draws by which the best iteration was judged, and no
        probe looked for modes outside the mixture.

    Examples
    --------
    >>> from skboost.exceptions import FitInterrupted
    >>> issubclass(FitInterrupted, KeyboardInterrupt)
    True
    """

    def __init__(self, message, result):
        super().__init__(message, result)
        self.result = result

    def __str__(self):
        return f"{self.args[0]} The posterior so far is in `.result` of this exception."
