"""Corrections by name: one affine map, heavy tails; how one is chosen and tried."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from skboost._math import N_ERRORS, mean_and_se
from skboost.approximation import FreshDraws, Mixture, elbo_gain
from skboost.calibration._chains import Chains, Coordinates
from skboost.calibration._heavy_tailed import HeavyTails
from skboost.calibration._problem import (
    Calibration,
    Declined,
    Problem,
    allowed_loss,
    beyond_noise,
    first_failure,
    refusal,
)


@dataclass(frozen=True)
class AffineMap:
    """A shift and a scale for every coordinate, the same for all components.

    Draws of the mixture become draws nearer to the target in two trajectories of
    Hamiltonian Monte Carlo. Stein's identity ``E[S g] = 0``, g the score of the target
    and S the scatter of the mixture, takes most of the noise from their moments:

        mean = avg(x + S g),  cov = S + sym avg[(x - mean + S g)(x - mean)^T]

    are exact for a Gaussian target of covariance S wherever the chains are. The logs of
    the scales are shrunk to their mean, and the shifts, in coordinates in which the
    mixture has unit scatter, to zero, by as much as they are noise (empirical Bayes).

    Parameters
    ----------
    guarded : bool
        Whether the ELBO may fall by little, and by less than ``E_p[ln q]`` gains; then
        shorter steps are tried as well, the longest first. See `allowed_loss`.

    References
    ----------
    Mira, Solgi & Imparato 2013, Zero variance Markov chain Monte Carlo for Bayesian
    estimators, Statistics and Computing 23.
    """

    guarded: bool
    method = "affine"

    @property
    def steps(self):
        """Shares of the whole map that are tried."""
        return tuple(k / 10 for k in range(10, 0, -1)) if self.guarded else (1.0,)

    def corrected(self, problem, pilot):
        """The mixture after the map, and the record; raises `Declined`."""
        coordinates = Coordinates(problem.mixture)
        chains = self._chains(problem, coordinates, 512, 1)
        shift, log_scale = stein_map(chains, coordinates)
        judges = self._chains(problem, coordinates, 256, 2)
        before = self._fresh(problem, problem.mixture)
        for step in self.steps:
            mixture = mapped(
                problem.mixture, coordinates, step * shift, step * log_scale
            )
            record = self._judged(problem, step, mixture, judges, before)
            reason = refusal(record, self._allowed(record, pilot, mixture.dim))
            if not reason:
                return mixture, record
        raise Declined(replace(record, step=0.0, reason=reason))

    def _allowed(self, record, pilot, dim):
        """Nats of the ELBO that a map may cost."""
        allowed = allowed_loss(self.guarded, pilot.kl, dim)
        if not self.guarded:
            return beyond_noise(allowed, record)
        noise = np.hypot(record.log_score_gain_se, record.elbo_change_se)
        return min(allowed, record.log_score_gain - N_ERRORS * noise)

    def _chains(self, problem, coordinates, n, key):
        """Chains from draws of the mixture, a few trajectories later."""
        rng = problem.rng(key)
        chains = Chains.at(problem.target, problem.mixture.sample(n, rng)).inside()
        # Trajectories are then a quarter of a turn on average, after which a normal
        # target is forgotten.
        chains = replace(chains, step=0.45)
        for _ in range(2 if len(chains.theta) >= n // 2 else 0):
            chains = chains.moved(problem.target, coordinates, rng)
        if len(chains.theta) < n // 2:
            reason = (
                "the density is zero or failed, it or its gradient, at "
                f"{n - len(chains.theta)} of {n} draws."
            )
            reason += first_failure(problem.target)
            raise Declined(Calibration(self.method, reason=reason))
        return chains

    def _fresh(self, problem, mixture):
        exact = problem.exact_for(mixture)
        return FreshDraws.of(problem.target, mixture, 1024, problem.rng(3), exact)

    def _judged(self, problem, step, mixture, judges, before):
        change = elbo_gain(before, self._fresh(problem, mixture))
        gain = mixture.log_density(judges.theta) - problem.mixture.log_density(
            judges.theta
        )
        return Calibration(self.method, step, *change, *mean_and_se(gain))


def stein_map(chains, coordinates):
    """Shift (dim,) and logs of scales (dim,) towards the moments that chains see."""
    newton = coordinates.times_scatter(chains.score)
    target_mean = chains.theta + newton
    mean = target_mean.mean(axis=0)
    apart = chains.theta - mean
    terms = 1.0 + (apart + newton) * apart / coordinates.variance
    variance = np.maximum(terms.mean(axis=0), 0.1)
    noise = 0.5 * standard_error(terms) / variance
    log_scale = shrunk(0.5 * np.log(variance), noise)
    # Coordinates of unit scatter: what is noise in them is noise in nats.
    z = coordinates.into(target_mean - coordinates.location)
    shift = shrunk(z.mean(axis=0), standard_error(z), centre=0.0)
    return coordinates.out(shift), log_scale


def standard_error(terms):
    """Of the mean of rows (n, dim), shape (dim,)."""
    return terms.std(axis=0, ddof=1) / np.sqrt(len(terms))


def shrunk(values, noise, centre=None):
    """Values pulled to their mean, or to `centre`, by their share of noise."""
    centre = values.mean() if centre is None else centre
    spread = max(np.mean((values - centre) ** 2 - noise**2), 0.0)
    share = spread / np.maximum(spread + noise**2, np.finfo(float).tiny)
    return centre + share * (values - centre)


def mapped(mixture, coordinates, shift, log_scale):
    """The mixture of ``location + shift + scale * (theta - location)``."""
    scale, centre = np.exp(log_scale), coordinates.location
    components = []
    for family, params in mixture.components:
        place = centre + shift + scale * (family.location(params) - centre)
        stretched = family.widen(np.array(params), scale)
        components.append((family, family.recentre(stretched, place)))
    return Mixture(tuple(components), mixture.weights)


class Method(NamedTuple):
    """Corrections where importance weights serve, and where they do not."""

    weighted: object
    by_chains: object

    def choose(self, pilot, dim):
        """The correction for what the pilot saw."""
        # Few effective draws for each dimension are no guide, and in many dimensions
        # scale matrices of weighted draws cost too much.
        few = pilot.effective_sample_size < 5 * dim
        return self.by_chains if few or dim > 20 else self.weighted


# By the names that users give: guarded, and as strong as it comes.
CALIBRATIONS = {
    "auto": Method(HeavyTails(guarded=True), AffineMap(guarded=True)),
    "moments": Method(HeavyTails(guarded=False), AffineMap(guarded=False)),
}


def calibrate(
    target,
    mixture,
    method,
    seed,
    *,
    exact=False,
    tol=1e-2,
    max_components=None,
    budget=None,
    by_chains=False,
):
    """A mixture with better moments and tails, or the same one.

    Parameters
    ----------
    target : Target
        With a gradient.
    mixture : Mixture
    method : str
        One of `CALIBRATIONS`.
    seed : int
    exact : bool, default=False
        Whether the target's closed Gaussian expectations are used.
    tol : float, default=1e-2
        Nats below which nothing is corrected.
    max_components : int, default=None
        Of the corrected mixture; None is any number.
    budget : Budget, default=None
        That ends long computations between evaluations; `target` may be watched by
        it, too.
    by_chains : bool, default=False
        Whether it is the correction by chains even where importance weights serve.

    Returns
    -------
    mixture : Mixture
        The one that came, where the correction was declined.
    Calibration

    Raises
    ------
    BudgetSpent
        Where the budget ends.
    """
    tolerant = target.tolerant()
    problem = Problem(tolerant, mixture, exact, seed, max_components, budget)
    try:
        pilot = problem.pilot()
        if not np.isfinite(pilot.remaining.value):
            reason = "the density is zero or failed at every draw."
            return mixture, Calibration(reason=reason + first_failure(tolerant))
        if pilot.remaining.spread < tol:
            reason = f"draws see less than {tol:g} nats that are left to correct."
            return mixture, Calibration(reason=reason)
        known = CALIBRATIONS[method]
        chosen = known.by_chains if by_chains else known.choose(pilot, mixture.dim)
        return chosen.corrected(problem, pilot)
    except Declined as declined:
        return mixture, declined.calibration
    except (ValueError, FloatingPointError) as error:
        # Singular matrices, and moments that no member of a family has.
        return mixture, Calibration(reason=f"its numbers failed ({error}).")
