"""Student-t components fitted to weighted draws: adaptive importance sampling."""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from skboost._math import log_sum_exp, log_weights, responsibilities
from skboost.approximation import Mixture, effective_sample_size, psis
from skboost.calibration._chains import Coordinates
from skboost.families import Gaussian, StudentT

# Rounds of draws, each from the fit to all before, and steps of EM.
_N_ROUNDS = 4
_N_STEPS = 8
# Degrees of freedom that a component may have, all with a variance; inf is a Gaussian,
# the one choice where results are exponentials of coordinates.
_DF = (2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 30.0, np.inf)
_LIGHT_DF = (np.inf,)
# Of the first proposal, whose components are those of the mixture.
_FIRST_DF = 5.0
# Draws that are no fit's: a wide component, and copies of the components, all with 2
# degrees of freedom, with their shares. Half of the draws in such tails: with a quarter
# few draws carried them.
_WIDE_SHARE, _HEAVY_SHARE = 0.1, 0.5
_HEAVY_DF, _WIDTH = 2.0, 1.5
# Components lighter than that are dropped.
LEAST_WEIGHT = 0.002


@dataclass(frozen=True)
class Pool:
    """Draws of several proposals, weighted towards the target.

    Attributes
    ----------
    theta : ndarray of shape (n, dim)
    log_joint : ndarray of shape (n,)
    log_proposal : ndarray of shape (n,)
        Of all proposals together (the balance heuristic), nats.
    weights : ndarray of shape (n,)
        Pareto-smoothed importance weights, which sum to one.
    """

    theta: np.ndarray
    log_joint: np.ndarray
    log_proposal: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, theta, log_joint, proposals):
        """Weigh draws, as many of each proposal."""
        tables = [proposal.log_density(theta) for proposal in proposals]
        log_proposal = log_sum_exp(np.stack(tables).T) - np.log(len(proposals))
        smoothed = psis(log_joint - log_proposal).log_weights
        weights = np.exp(smoothed - smoothed.max())
        return cls(theta, log_joint, log_proposal, weights / weights.sum())

    @property
    def effective_sample_size(self):
        """Kish's, of the weights."""
        return effective_sample_size(log_weights(self.weights))


def student_fit(problem, n_draws, rng):
    """A mixture of Student-t components near a target, and the draws it was fitted to.

    Every round draws from the fit so far, weights all draws of all rounds by the
    balance heuristic, and goes on with EM on them. Components are Gaussian where the
    target asks for light tails.

    Parameters
    ----------
    problem : Problem
        Whose mixture is where the components begin.
    n_draws : int
        Of each of four rounds.
    rng : numpy.random.Generator

    Returns
    -------
    fitted : Mixture
    pool : Pool
        Of all draws.
    proposal : Mixture
        The fit with heavier tails, from which draws see where the fit lacks mass.

    References
    ----------
    Cornuet, Marin, Mira & Robert 2012, Adaptive multiple importance sampling. Cappé,
    Douc, Guillin, Marin & Robert 2008, Adaptive importance sampling in general mixture
    classes. Peel & McLachlan 2000, Robust mixture modelling using the t distribution.
    """
    target, mixture = problem.target, problem.mixture
    fit = _Fit.start(mixture, _LIGHT_DF if problem.light_tails else _DF)
    theta, log_joint, proposals = [], [], []
    for _ in range(_N_ROUNDS):
        proposals.append(fit.proposal(mixture))
        theta.append(proposals[-1].sample(n_draws, rng))
        log_joint.append(target.log_density(theta[-1]))
        pool = Pool.of(np.concatenate(theta), np.concatenate(log_joint), proposals)
        for _ in range(_N_STEPS):
            problem.check_budget()
            fit = fit.improved(pool)
    return fit.mixture, pool, fit.proposal(mixture)


@dataclass(frozen=True)
class _Fit:
    """Weights, locations, scale matrices and degrees of freedom of the components."""

    weights: np.ndarray
    locations: np.ndarray
    scatters: np.ndarray
    df: np.ndarray
    choices: tuple

    @classmethod
    def start(cls, mixture, choices):
        """The components of a mixture, with tails where these are among the choices."""
        alone = [Coordinates(Mixture.single(*part)) for part in mixture.components]
        return cls(
            mixture.weights,
            np.array([part.location for part in alone]),
            np.array([part.factor @ part.factor.T for part in alone]),
            np.full(len(alone), _FIRST_DF if _FIRST_DF in choices else np.inf),
            choices,
        )

    @property
    def mixture(self):
        """The fit as a mixture of densities."""
        return _mixture(self.weights, self.locations, self.scatters, self.df)

    def proposal(self, mixture):
        """The fit, copies of it with heavier tails, and one wide component."""
        wide = Coordinates(mixture)
        scatter = _WIDTH**2 * wide.factor @ wide.factor.T
        heavy = np.minimum(self.df, _HEAVY_DF)
        shares = (1.0 - _WIDE_SHARE - _HEAVY_SHARE, _HEAVY_SHARE, _WIDE_SHARE)
        return _mixture(
            np.concatenate([shares[0] * self.weights, shares[1] * self.weights,
                            [shares[2]]]),
            np.concatenate([self.locations, self.locations, wide.location[None]]),
            np.concatenate([self.scatters, self.scatters, scatter[None]]),
            np.concatenate([self.df, heavy, [_HEAVY_DF]]),
        )  # fmt: skip

    def improved(self, pool):
        """One step of EM on the weighted draws, and of the degrees of freedom."""
        table = self.mixture.log_components(pool.theta) + log_weights(self.weights)
        share = responsibilities(table)[0] * pool.weights[:, None]
        weights = share.sum(axis=0)
        kept = np.flatnonzero(weights > LEAST_WEIGHT)
        parts = [self._part(pool, share[:, k], k) for k in kept]
        locations, scatters, df = map(np.array, zip(*parts, strict=True))
        weights = weights[kept] / weights[kept].sum()
        return _Fit(weights, locations, scatters, df, self.choices)

    def _part(self, pool, share, k):
        """Location, scale matrix and degrees of freedom of one component.

        The scale matrix that it had counts as one draw for each dimension: no component
        collapses onto a few heavy draws.
        """
        dim, df = pool.theta.shape[1], self.df[k]
        squared = _squared(pool.theta, self.locations[k], self.scatters[k])
        pulled = share if np.isinf(df) else share * (df + dim) / (df + squared)
        location = pulled @ pool.theta / pulled.sum()
        apart = pool.theta - location
        prior = dim / pool.effective_sample_size
        scatter = (apart * pulled[:, None]).T @ apart + prior * self.scatters[k]
        scatter /= share.sum() + prior
        squared = _squared(pool.theta, location, scatter)
        return location, scatter, _likeliest_df(self.choices, share, squared, dim)


def _squared(theta, location, scatter):
    """Squared whitened lengths, shape (n,)."""
    z = np.linalg.solve(np.linalg.cholesky(scatter), (theta - location).T)
    return np.einsum("ij,ij->j", z, z)


def _likeliest_df(choices, share, squared, dim):
    """The degrees of freedom under which weighted draws are likeliest."""
    df = np.array(choices[:-1])
    constant = gammaln(0.5 * (df + dim)) - gammaln(0.5 * df) - 0.5 * dim * np.log(df)
    tails = -0.5 * (df + dim) * np.log1p(squared[:, None] / df)
    values = share @ tails + share.sum() * constant
    normal = -0.5 * share @ squared - 0.5 * dim * np.log(2.0) * share.sum()
    return choices[int(np.argmax(np.append(values, normal)))]


def _mixture(weights, locations, scatters, df):
    """The mixture of Student-t densities, or normal ones, with these scale matrices."""
    components = []
    for location, scatter, nu in zip(locations, scatters, df, strict=True):
        normal = Gaussian("full").from_moments(location, scatter)
        family = Gaussian("full") if np.isinf(nu) else StudentT("full", float(nu))
        components.append((family, normal))
    return Mixture(tuple(components), weights / weights.sum())
