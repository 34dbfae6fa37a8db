"""What searches for components are told, and that of the papers, by Adam."""

from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator

from skboost._budget import BudgetSpent
from skboost._math import responsibilities
from skboost._parameters import keeps_parameters
from skboost._random import SEARCH, generator
from skboost.approximation import Mixture
from skboost.families import Component
from skboost.modes import Modes
from skboost.objectives import SingleELBO
from skboost.proposals._density import FamilyProposer


class GreedySearch(BaseEstimator):
    """The default search for components, for ``search=``, with other settings.

    ``search="greedy"`` is this object by default, right for all but studies.

    Parameters
    ----------
    n_draws : int, default=512
        Monte Carlo draws kept per searched component; four times as many for 22 to 43
        coefficients.
    refine : bool, default=True
        Re-optimise old components after a searched one; the papers leave them.
    stopping : {"gain", "gap"}, default="gain"
        Of the gain in ELBO: stops when gain + 2 standard errors <= 2 `tol`, since the
        next one is usually half as large. Of the duality gap: stops when gap + 2
        standard errors <= `tol`, unless the candidate's own gap is clearly negative.
        Both wait for all nodes.
    max_components : int, default=None
        Bound on the mixture's size; the lightest components beyond it are dropped.

    Examples
    --------
    >>> import autograd.numpy as np
    >>> from skboost import boost_posterior
    >>> from skboost.strategies import GreedySearch
    >>> def log_density(theta):
    ...     return np.logaddexp(-2 * (theta[:, 0] + 2) ** 2, -((theta[:, 0] - 2) ** 2))
    >>> few = GreedySearch(max_components=2)
    >>> result = boost_posterior(log_density, dim=1, search=few, random_state=0)
    >>> result.posterior.n_components
    2
    """

    def __init__(self, n_draws=512, refine=True, stopping="gain", max_components=None):
        self.n_draws = n_draws
        self.refine = refine
        self.stopping = stopping
        self.max_components = max_components

    def settings(self):
        """What a run is told besides, by name."""
        names = ("n_draws", "refine", "stopping", "max_components")
        return {name: getattr(self, name) for name in names}

    def check(self, family):
        """Refuse hyperparameters that mean nothing by a ValueError that names them."""
        self._require_whole("n_draws", least=2)
        if self.max_components is not None:
            self._require_whole("max_components")
        known = isinstance(self.refine, bool | np.bool_)
        self._require(known, "refine", "True or False")
        self._require(self.stopping in ("gain", "gap"), "stopping", "'gain' or 'gap'")

    def _require_whole(self, name, least=1):
        value = getattr(self, name)
        valid = isinstance(value, Integral) and value >= least
        self._require(valid, name, f"a whole number from {least} on")

    def _require(self, valid, name, required):
        if not valid:
            raise ValueError(
                f"{name} must be {required}; got {getattr(self, name)!r}. Change "
                f"{name} of {type(self).__name__}."
            )


class StochasticSearch(GreedySearch):
    """Search by steps of Adam on few draws, for reproducing the papers.

    Needs a number as `prior_scale`; the family is any.

    The solver of Locatello et al. 2018 and of Dresdner et al. 2021, as their public
    code has it: a component starts at random and takes a fixed number of steps up the
    objective, each on new draws, without a test of convergence. The default search
    (``search="greedy"``) starts where the mixture lacks mass, keeps its draws, and
    solves to convergence.

    Parameters
    ----------
    n_steps : int, default=1000
        Steps of a component. The authors take 600 or 1,000 for regressions and 100 for
        factorisations.
    learning_rate : float, default=0.1
        Of Adam.
    decay : float, default=0.9
        Factor in (0, 1] on the learning rate every `decay_every` steps.
    decay_every : int, default=100
        Steps between two decays.
    n_step_draws : int or None, default=1
        Draws per gradient. None is `n_draws`.
    residual : {"joint", "elementwise"}, default="joint"
        What stands for the current mixture in the residual ELBO: its log density
        (Locatello et al. 2018, equation 9), or the sum over coordinates of the log
        densities of their marginals, which is what the authors' code computes. It
        needs components with independent coordinates.

    select : {"elbo", "last"}, default="elbo"
        Which iterate is the result: the one with the largest ELBO, or the last. Under
        "last" the stages of a fit are its iterates, from which their own measure may
        choose, such as the train log likelihood of the authors. Factorisations choose
        by their `step_size`.
    n_draws, refine, stopping, max_components
        As in `GreedySearch`, with the same defaults; factorisations know none of them.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from skboost import BoostedBayesianLogisticRegression
    >>> from skboost.strategies import StochasticSearch
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BoostedBayesianLogisticRegression(
    ...     prior_scale=1.0, family="laplace", objective="relbo",
    ...     search=StochasticSearch(n_steps=200, refine=False), corrective="none",
    ...     step_size="predefined", max_iter=2, tol=0.0, random_state=0,
    ... ).fit(scale(X), y)
    >>> model.n_iter_
    2
    """

    @keeps_parameters
    def __init__(
        self,
        n_steps=1000,
        learning_rate=0.1,
        decay=0.9,
        decay_every=100,
        n_step_draws=1,
        residual="joint",
        select="elbo",
        n_draws=512,
        refine=True,
        stopping="gain",
        max_components=None,
    ):
        pass

    def check(self, family):
        """Refuse hyperparameters that mean nothing by a ValueError that names them."""
        super().check(family)
        for name in ("n_steps", "decay_every", "n_step_draws"):
            if name != "n_step_draws" or self.n_step_draws is not None:
                self._require_whole(name)
        for name, most in (("learning_rate", np.inf), ("decay", 1.0)):
            value = getattr(self, name)
            valid = isinstance(value, Real) and 0 < value <= most
            self._require(valid, name, f"a number in (0, {most}]")
        known = self.residual in ("joint", "elementwise")
        self._require(known, "residual", "'joint' or 'elementwise'")
        known = self.select in ("elbo", "last")
        self._require(known, "select", "'elbo' or 'last'")
        if self.residual == "elementwise" and not independent(family):
            raise ValueError(
                "residual='elementwise' needs components with independent coordinates, "
                "such as family='diagonal' or 'laplace'; got "
                f"{type(family).__name__}. Choose one of these, or residual='joint'."
            )

    def ascend(self, gradient, x):
        """Points every `decay_every` steps of Adam, and the last one."""
        return adam(
            gradient,
            x,
            self.n_steps,
            rate=self.learning_rate,
            every=self.decay_every,
            decay=self.decay,
        )

    def residual_of(self, context):
        """What a search knows, with the mixture as the residual ELBO takes it."""
        if self.residual == "joint":
            return context
        mixture = ElementwiseMixture(context.fixed.mixture)
        return context._replace(fixed=replace(context.fixed, mixture=mixture))


def independent(family):
    """Whether the coordinates of every member are independent."""
    related = family.full_covariance or family.low_rank
    return not related and family.distribution in ("gaussian", "laplace")


@dataclass(frozen=True)
class ElementwiseMixture:
    """A mixture for every coordinate, and their product: marginals, not a density of
    all components."""

    mixture: Mixture

    def score_and_log_density(self, theta):
        """Score (n, dim) and log density (n,) of the product of all marginals."""
        components = self.mixture.components
        logs = [one.marginal_log_density(slice(None), theta) for one in components]
        scores = np.stack([one.at(theta).score() for one in components], axis=-1)
        shares = np.stack(logs, axis=-1) + np.log(self.mixture.weights)
        shares, log_q = responsibilities(shares.reshape(-1, len(components)))
        score = (shares.reshape(scores.shape) * scores).sum(axis=-1)
        return score, log_q.reshape(theta.shape).sum(axis=1)


@dataclass(frozen=True)
class StochasticProposer(FamilyProposer):
    """Every component from a random start by a fixed number of stochastic steps."""

    search: StochasticSearch = StochasticSearch()
    seeks_gain = False

    def modes_not_searched(self, target):
        return True

    def initial(self, target, settings):
        def problem(component, draws):
            return SingleELBO(target, component, draws, False)

        last, x = self._climb(target, problem, 0, settings)
        return Mixture.single(last.unpack(x)), Modes()

    def propose(self, target, context, settings):
        context = self.search.residual_of(context._replace(exact=False))

        def problem(component, draws):
            return self.objective.problem(context, component, 0.5, draws)

        last, x = self._climb(target, problem, context.iteration, settings)
        return self.objective.candidate(last, x, 0.0).component

    def _climb(self, target, problem, iteration, settings):
        """A problem, ``problem(component, draws)``, and where in it one climb ends."""
        rng, dim = generator(settings.seed, iteration, SEARCH), target.dim
        family = self.family.variants()[-1].with_rank()
        centre = self.starts[0] + rng.standard_normal(dim)
        # Scales as the authors draw them.
        scale = np.logaddexp(0.0, rng.standard_normal(dim))
        start = Component(family, family.from_moments(centre, scale**2))
        n = self.search.n_step_draws or settings.n_draws

        def on_draws():
            return problem(start, family.random_draws(n, dim, rng))

        def inside(x):
            # Scales stay finite; nothing else has a limit.
            own = np.clip(x[: len(limits)], -limits, limits)
            return np.append(own, x[len(limits) :])

        def gradient(x):
            return on_draws().value_and_gradient(inside(x))[1]

        last, limits = on_draws(), start.limits()
        x = last.start
        with suppress(BudgetSpent):
            for reached in self.search.ascend(gradient, x):
                x = inside(reached)
        return last, x


def adam(gradient, x, n_steps, rate=0.1, every=100, decay=0.9, memory=(0.9, 0.999)):
    """Points on the way of Adam (Kingma and Ba 2015, Algorithm 1), uphill.

    A point is yielded, and the rate falls, whenever `every` steps are done; the last is
    yielded, too. `memory` is that of the averages of slopes and of their squares.
    """
    first, second = memory
    slope, square = np.zeros((2, len(x)))
    for step in range(1, n_steps + 1):
        g = gradient(x)
        slope += (1.0 - first) * (g - slope)
        square += (1.0 - second) * (g**2 - square)
        corrected = np.sqrt(square / (1.0 - second**step)) + 1e-8
        x = x + rate * slope / (1.0 - first**step) / corrected
        if step % every == 0 or step == n_steps:
            yield x
        if step % every == 0:
            rate *= decay
