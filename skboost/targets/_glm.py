"""Log joint densities of generalised linear models, whatever their likelihood.

Notation: eta = X theta + offset, theta = (coef..., intercept), w the sample weights
times the temperature (which acts on the likelihood only).
"""

from copy import copy
from functools import partial
from operator import attrgetter

import numpy as np
from scipy import sparse

from skboost._parallel import scratch
from skboost._row_blocks import Table
from skboost.targets._base import Centre, Target
from skboost.targets._design import Block, GaussianPredictors
from skboost.targets._likelihood import WeightedRows
from skboost.targets._priors import FlatPrior, NormalPrior, Prior

# Standard deviations of a predictor above which a logistic function bends within a
# small part of its distribution, of which derivatives at the mean know nothing.
_WIDEST = 5.0


class RowSums:
    """Sums over a block of rows, each a tuple or list; only the block is known."""

    # Arrays of the width of the parameters that are alive at once under Gaussians.
    n_temporaries = 1

    def __init__(self, likelihood, temperature, intercept):
        self.likelihood, self.temperature = likelihood, temperature
        self.intercept = intercept

    def rows(self, table):
        """The rows of a table as likelihoods sum over them."""
        return WeightedRows(Block(table, self.intercept), self.temperature)

    def linear(self, table):
        """What is linear in theta: its slopes (dim,), and what offsets add to it."""
        rows = self.rows(table)
        block = rows.block
        linear = (rows.weights * self.likelihood.linear(rows.y).T).T
        constant = 0.0 if block.offset is None else float((block.offset @ linear).sum())
        return block.pull(linear).T.ravel(), constant

    @staticmethod
    def predictors(block, columns):
        """Linear predictors (n_rows, n_draws), or (n_outputs, n_rows, n_draws)."""
        eta = scratch("predictors", (len(columns), len(block), columns[0].shape[1]))
        for column, out in zip(columns, eta, strict=True):
            found = block.predict(column, out)
            if found is not out:
                out[:] = found
        return eta[0] if len(columns) == 1 else eta

    # --- at draws

    def value(self, columns, table):
        """Log likelihood of every draw, without its linear part."""
        rows = self.rows(table)
        return (self.likelihood.total(self.predictors(rows.block, columns), rows),)

    def value_and_slope(self, columns, table):
        """The same and its gradient."""
        rows = self.rows(table)
        eta = self.predictors(rows.block, columns)
        return self.likelihood.total_and_slope(eta, rows)

    # --- around a point

    def expansion(self, theta, bends, table):
        """Log likelihood without its linear part, its slope; if `bends` its bend."""
        rows = self.rows(table)
        eta, y = rows.block.predict(theta)[:, None], rows.y[:, None]
        bend = self.likelihood.bend(eta, y)[:, 0] if bends else None
        value, slope = self.likelihood.value_and_slope(eta, y)
        sums = rows.weights @ value[:, 0], rows.block.pull(rows.weights * slope[:, 0])
        return (*sums, rows.block.gram(rows.weights * bend)) if bends else sums

    def skewness(self, theta, factor, table):
        """What third derivatives pull the mean by, under a covariance F F^T, and the
        weight of rows of which they tell nothing."""
        rows = self.rows(table)
        eta, spread = rows.block.predict(theta), rows.block.apply(factor)
        third = self.likelihood.third(eta[:, None], rows.y[:, None])[:, 0]
        variance = np.einsum("ij,ij->i", spread, spread)
        wide = rows.weights @ (variance > _WIDEST**2)
        return rows.block.pull(0.5 * rows.weights * third * variance), wide

    # --- under a Gaussian

    def expected(self, mean, variance, factor, table):
        """Expected log likelihood, and its slopes in mean, variance and factor."""
        given, value, slope, bend = self._expected(mean, variance, factor, table)
        return [value, *given.pull(slope, bend)]

    def curvature(self, mean, factor, table):
        """Expected log likelihood, its slope in the mean and minus its Hessian."""
        given, value, slope, bend = self._expected(mean, None, factor, table)
        return value, given.pull_mean(slope), given.grams(bend)

    def _expected(self, mean, variance, factor, table):
        """Predictors, the expected log likelihood, and weighted E[l'] and E[-l'']."""
        rows, n_outputs = self.rows(table), self.likelihood.n_outputs
        given = GaussianPredictors(rows.block, n_outputs, mean, variance, factor)
        value, slope, bend = self.likelihood.expected_rows(
            given.mean, given.covariance, rows.y
        )
        weights = rows.weights
        return given, weights @ value, weights * slope, weights * bend


def _expanded(expand, centring, theta, how, table):
    """`RowSums.expansion` about the centre, or `RowSums.curvature` by the factor
    `how`."""
    if centring.columns is None:
        return expand(theta, how, table)
    if not sparse.issparse(table.X):
        X = table.X - centring.columns
        table = Table(X, table.y, table.weight, table.offset)
        return expand(theta, how, table)
    how = centring.back(how.T).T if np.ndim(how) else how
    value, slope, *bend = expand(centring.back(theta), how, table)
    push = centring.pushed
    return value, push(slope), *(push(push(each).T) for each in bend)


class WithFurther(Prior):
    """A prior of coefficients with that of further parameters after them.

    A subclass gives ``_of_further(theta, scale)``, the log density of these (n_draws,)
    and its gradient.
    """

    def __init__(self, coef, further=None, n_further=1):
        self.coef, self.further, self.n_further = coef, further, n_further
        self.closed = coef.closed

    def _split(self, theta):
        return np.split(theta, [theta.shape[-1] - self.n_further], axis=-1)

    def given(self, scale, s):
        """See `CommonScale.given`."""
        view, (own, further) = copy(self), self._split(scale)
        view.coef, inner = self.coef.given(own, s)
        view.closed = view.coef.closed
        return view, np.append(inner, further)

    def log_density_given(self, theta, scale, node):
        """See `CommonScale.log_density_given`."""
        (coef, further), (own, last) = self._split(theta), self._split(scale)
        value = self.coef.log_density_given(coef, own, node)
        return value + self._of_further(further, last)[0]

    def log_density(self, theta, scale):
        (coef, further), (own, last) = self._split(theta), self._split(scale)
        return self.coef.log_density(coef, own) + self._of_further(further, last)[0]

    def value_and_score(self, theta, scale):
        (coef, further), (own, last) = self._split(theta), self._split(scale)
        value, score = self.coef.value_and_score(coef, own)
        more, slope = self._of_further(further, last)
        return value + more, np.column_stack([score, slope])


class GLMTarget(Target):
    """Log joint density of a Bayesian generalised linear model.

    theta is one linear predictor after the other, each intercept after its
    coefficients; scales of one serve all. The temperature is the power of the
    likelihood (Alquier).
    """

    # Priors of users are proper, and likelihoods of rows are bounded.
    proper = True

    # It knows no rows, and so can travel to where they are.
    _kind_of_sums = RowSums

    def __init__(
        self, rows, likelihood, *, temperature=1.0, prior=None, scale=None,
        fit_intercept=True, centre=None,
    ):  # fmt: skip
        self.rows, self.likelihood = rows, likelihood
        self.temperature, self.intercept = temperature, bool(fit_intercept)
        # Parameters of one linear predictor.
        n_coefs = rows.n_features + self.intercept
        self.dim = n_coefs * likelihood.n_outputs
        # Where the intercepts have their prior; at zero by default.
        columns = centre if self.intercept else None
        self.centring = Centre(columns, likelihood.n_outputs)
        self.prior = NormalPrior() if prior is None else prior
        if scale is not None and np.shape(scale) == (n_coefs,):
            scale = np.tile(scale, likelihood.n_outputs)
        self.scale = self.prior.resolve_scale(self.dim, scale)
        self._linear, self._constant = self._summed()

    def _extend(self, prior, scale):
        """Have further parameters after the coefficients, and a prior of all."""
        self.prior, self.scale = prior, np.append(self.scale, scale)
        self.dim += len(scale)

    def _summed(self):
        """What is linear in theta, which needs one product with the data, once."""
        n_outputs = self.likelihood.n_outputs
        width = self.rows.n_features + self.intercept + n_outputs
        return self.rows.sum(self._sums.linear, width)

    def part(self, step):
        """The target of every so many rows, which count as all."""
        view, rows = copy(self), self.rows.every(step)
        vars(view).pop("ledger", None)
        view.temperature = self.temperature * len(self.rows) / len(rows)
        view.rows = rows
        view._linear, view._constant = view._summed()
        return view

    @property
    def _sums(self):
        """What is summed over rows, of whatever likelihood this target has."""
        return self._kind_of_sums(self.likelihood, self.temperature, self.intercept)

    # Whether there are expectations: of a prior whose scale is learned, none.
    exact_gaussian = property(attrgetter("prior.closed"))

    knows_curvature = exact_gaussian

    @property
    def log_concave(self):
        """Whether likelihood and prior are log-concave."""
        return self.likelihood.log_concave and self.prior.log_concave

    @property
    def scale_prior(self):
        """The `CommonScale` of the coefficients, where they have one."""
        if self.prior.closed:
            return None
        return self.prior.coef if isinstance(self.prior, WithFurther) else self.prior

    @property
    def coef_prior(self):
        """The prior of the coefficients, at one scale where that is learned."""
        return self.prior if self.scale_prior is None else self.scale_prior.coef

    def at_common_scale(self, s):
        """This target where the factor that `CommonScale` learns is known."""
        view = copy(self)
        view.prior, view.scale = self.prior.given(self.scale, s)
        return view

    def at_node(self, node):
        """The same at a `ScaleNode` whose kind is 0; of others the likelihood alone."""
        if node.kind == 0:
            return self.at_common_scale(np.exp(node.log_s))
        view = copy(self)
        view.prior, view.scale = FlatPrior(), np.ones(self.dim)
        return view

    def _checked(self, theta):
        theta = np.asarray(theta, dtype=float)
        if theta.ndim != 2 or theta.shape[1] != self.dim:
            raise ValueError(
                f"theta must have shape (n_draws, {self.dim}); got {theta.shape}."
            )
        return theta

    # --- at draws

    def log_density(self, theta, strict=False):
        """Log joint density (n_draws,) of draws (n_draws, dim), nats."""
        theta = self._checked(theta)
        self.ledger.spend(len(theta))
        out = self.prior.log_density(self.centring.about(theta), self.scale)
        for batch in self._batches(theta):
            (value,) = self._over_rows(self._sums.value, theta[batch])
            out[batch] += value
        return out

    def value_and_score(self, theta, strict=False):
        """Log joint density (n_draws,) and its gradient (n_draws, dim)."""
        theta = self._checked(theta)
        self.ledger.spend(len(theta))
        value, score = self.prior.value_and_score(
            self.centring.about(theta), self.scale
        )
        score = self.centring.pulled(score)
        for batch in self._batches(theta):
            some = theta[batch]
            more, slope = self._over_rows(self._sums.value_and_slope, some, some.size)
            value[batch] += more
            score[batch] += self._linear + slope.reshape(self.dim, -1).T
        return value, score

    @staticmethod
    def _batches(theta):
        # Draws are taken in batches of this size so that blocks keep enough rows.
        draw_batch = 1024
        starts = range(0, len(theta), draw_batch)
        return [slice(start, start + draw_batch) for start in starts]

    def _over_rows(self, func, theta, entries=1):
        """Log likelihood of draws, and what else a function sums over rows."""
        # Coefficients of every linear predictor: array (n_outputs, ., n_draws).
        stacked = theta.reshape(len(theta), self.likelihood.n_outputs, -1)
        columns = np.ascontiguousarray(stacked.transpose(1, 2, 0))
        width = self.likelihood.n_temporaries * len(theta)
        value, *others = self.rows.sum(partial(func, columns), width, entries)
        return theta @ self._linear + (value + self._constant), *others

    # --- around a point, of one linear predictor, in parameters about the centre

    def expansion(self, theta, bends=True):
        """Log likelihood, its slope (dim,) and, if `bends`, minus its Hessian."""
        self.ledger.spend()
        part = partial(_expanded, self._sums.expansion, self.centring, theta, bends)
        width = self._sums.n_temporaries * self.dim
        value, slope, *bend = self.rows.sum(part, width, self.dim**2 if bends else 1)
        value += self.centring.back(theta) @ self._linear + self._constant
        return value, slope + self.centring.pushed(self._linear), *bend

    def expected_expansion(self, theta, factor):
        """The same, with the Hessian, in expectation under N(theta, F F^T)."""
        self.ledger.spend()
        part = partial(_expanded, self._sums.curvature, self.centring, theta, factor)
        width = self._sums.n_temporaries * self.dim
        return self.rows.sum(part, width, self.dim**2)

    def skewness(self, theta, factor):
        """What third derivatives pull the mean from the mode by (dim,), under F F^T.

        And whether they tell it: not where a predictor is wider than what bends.
        """
        self.ledger.spend()
        theta, factor = self.centring.back(theta), self.centring.back(factor.T).T
        part = partial(self._sums.skewness, theta, factor)
        pull, wide = self.rows.sum(part, self._sums.n_temporaries * self.dim)
        return self.centring.pushed(pull), wide == 0.0

    # --- under Gaussians

    def expected_log_density(self, mean, variance=None, factor=None):
        """E[log joint] under N(mean, diag(variance) + factor factor^T), and all
        gradients."""
        self.ledger.spend()
        part = partial(self._sums.expected, mean, variance, factor)
        width = self.likelihood.n_outputs * (
            self.dim if factor is None else factor.shape[1]
        )
        width = self._sums.n_temporaries * max(self.dim, width)
        entries = 2 * self.dim + (0 if factor is None else factor.size)
        value, g_mean, *others = self.rows.sum(part, width, entries)
        prior, about = self._expected_prior(mean, variance, factor)
        g_variance = g_factor = None
        if variance is not None:
            slope = self.centring.pulled_variances(prior.d_variance)
            g_variance = others.pop(0) + slope
        if factor is not None:
            slope = self.centring.pulled(2.0 * prior.d_variance * about)
            g_factor = others.pop(0) + slope.T
        g_mean = g_mean + self.centring.pulled(prior.d_mean)
        return value + prior.value, g_mean, g_variance, g_factor

    def expected_curvature(self, mean, factor):
        """E[log joint], its mean gradient and E[-Hessian] under N(mean, F F^T)."""
        self.ledger.spend()
        part = partial(self._sums.curvature, mean, factor)
        width = max(self.dim, self.likelihood.n_outputs * factor.shape[1])
        width *= self._sums.n_temporaries
        value, g_mean, curvature = self.rows.sum(part, width, self.dim**2)
        prior, _ = self._expected_prior(mean, None, factor)
        # By Price's theorem.
        curvature -= 2.0 * self.centring.curvature(prior.d_variance)
        g_mean = g_mean + self.centring.pulled(prior.d_mean)
        return value + prior.value, g_mean, curvature

    def _expected_prior(self, mean, variance=None, factor=None):
        """That of parameters about the centre, and rows of the factor there."""
        total, about = np.zeros(self.dim), None
        if variance is not None:
            total = total + self.centring.variances(variance)
        if factor is not None:
            about = self.centring.about(factor.T)
            total = total + np.einsum("ij,ij->j", about, about)
        mean = self.centring.about(mean)
        return self.prior.expected(mean, total, self.scale), about
