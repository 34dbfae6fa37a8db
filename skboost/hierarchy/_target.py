"""Log posterior density of coefficients and scales, group effects integrated out.

Which way they are is chosen here, too.
"""

from copy import copy
from dataclasses import replace

import numpy as np

from skboost._random import generator
from skboost.families import MAX_FULL_DIM, Component, FullGaussian
from skboost.hierarchy._crossed import MOST_OTHERS
from skboost.hierarchy._crossed_normal import CrossedNormalMarginal
from skboost.hierarchy._integrated_normal import IntegratedNormalMarginal
from skboost.hierarchy._integrated_quadrature import (
    IntegratedNestedMarginal,
    IntegratedQuadratureMarginal,
)
from skboost.hierarchy._laplace import LaplaceMarginal
from skboost.hierarchy._marginal import UngroupedMarginal
from skboost.hierarchy._nested import nested_order
from skboost.hierarchy._nested_quadrature import NestedQuadratureMarginal
from skboost.hierarchy._normal import NormalMarginal
from skboost.hierarchy._quadrature import QuadratureMarginal
from skboost.hierarchy._rows import main_factor
from skboost.targets import Target

# Columns up to which coefficients are integrated out: a draw needs their covariance
# matrix, and thousands of draws are looked at.
_MOST_COLUMNS = 200
# Multiplications of the first of these that take a tenth of a second.
_MOST_PRODUCTS = 1 << 27
# Numbers that sums over groups of the main factor may hold, 128 MiB: of many groups
# beside many columns a sparse matrix holds less.
_MOST_PAIRS = 1 << 24
# Products of columns over rows, of which every Newton step of Laplace's method has
# sums, up to which it integrates coefficients out: some milliseconds.
_MOST_SUMMED = 1 << 22
# Scales and what else is learned beside coefficients that quadrature integrates out: a
# lattice has hundreds of nodes of three, and one is two Newton steps at least.
_MOST_LEVELS = 3
# Pairs of draws by which a trend of what Laplace's method misses is found: at least so
# many, at most so many, and of that many rows; the steps of differences of its
# gradients, in units.
_PAIRS, _PAIRED_ROWS, _STEP = (16, 64), 400_000, 0.2
# Coordinates of which draws, by their values alone, leave nothing of a quadratic open:
# ten for each of its terms.
_MOST_BY_VALUES = 4
# Draws at which numbers of nodes are compared, and rows up to which three effects of a
# group have any.
_N_COMPARED, _FEW_ROWS = 8, 256
# Logarithms of scales and noise beyond which a search steps back: of their ratios
# products are taken, of which floating point holds none further out.
_FARTHEST_LEVEL = 100.0


class HierarchicalTarget(Target):
    """Log joint density of (beta, z..., ln sigma_y), where z are scales transformed.

    `transforms` lead from the last coordinates to the scales of group effects, and to
    what all rows share, such as the scale of the noise; `level_priors` are of their
    logarithms. Columns of the marginal's rows are about the centre that `centring` has,
    where coefficients have their prior. Coordinates are those about it, too, but where
    there are too many for the full covariances that lead back.
    """

    def __init__(
        self, marginal, prior, scale, level_priors, transforms, centring=Target.centring
    ):
        self.marginal, self.prior, self.scale = marginal, prior, scale
        self.level_priors, self.transforms = level_priors, transforms
        # Coefficients that are integrated out are no coordinates.
        self.n_coefficients = len(scale)
        self.n_columns = 0 if marginal.integrates_coefficients else len(scale)
        self.n_levels = len(level_priors) - marginal.n_further
        self.dim = self.n_columns + len(level_priors)
        self.of_coefficients = centring
        many = self.n_columns and self.dim > MAX_FULL_DIM
        self.centring = centring if many else Target.centring
        self.on_lattice = 0 < self.dim <= marginal.lattice_dim
        self.scores_draws = self.dim > _MOST_BY_VALUES

    def __getstate__(self):
        # What a fit may spend ends with it.
        return {name: held for name, held in vars(self).items() if name != "ledger"}

    @property
    def way(self):
        """See `Target`."""
        both = ", with coefficients" if self.marginal.integrates_coefficients else ""
        return f"; effects of groups are integrated out {self.marginal.way}{both}"

    @property
    def portable(self):
        """Whether pickles carry it: it holds sums over rows, no data."""
        return self.marginal.integrates_coefficients and self.marginal.exact

    def at_zero(self, mixture):
        """A mixture over its coordinates as one over coefficients of the columns as
        they are.
        """
        back, family, parts = self.of_coefficients.back, FullGaussian(), []
        if self.centring.columns is not None or self.of_coefficients.columns is None:
            return mixture
        for component in mixture.components:
            mean, _, factor = component.structure()
            params = family.from_factor(back(mean), back(factor.T).T)
            parts.append(Component(component.family, params))
        changes = {"components": tuple(parts)}
        if mixture.orbiting:
            changes["target"] = copy(self)
            changes["target"].centring = self.of_coefficients
        return replace(mixture, **changes)

    def coefficients(self, theta):
        """Means and triangular factors of integrated coefficients given scales."""
        mean, root = self.marginal.coefficients(*self.split(theta)[1:])
        back = self.of_coefficients.back
        return back(mean), np.swapaxes(back(np.swapaxes(root, 1, 2)), 1, 2)

    def learn_missed(self, mode, unit):
        """Have a marginal that is not exact look at what it misses around a mode, where
        its coordinates are scales alone; lengths are near `unit`, (dim,).

        Returns
        -------
        bool
            Whether weights of draws make up for the rest.
        """
        if self.marginal.exact or self.n_columns:
            if isinstance(self.marginal, QuadratureMarginal) and not self.on_lattice:
                away = unit * generator(0).standard_normal((_N_COMPARED, self.dim))
                self.marginal.choose_nodes(*self.split(mode + away))
            return True
        if self.ledger.budget.cuts():
            return not self.marginal.weighs_scales
        steps = np.diag(_STEP * unit)
        ends = [self.value_and_score(mode + sign * steps)[1] for sign in (1.0, -1.0)]
        bend = unit * (ends[1] - ends[0]) / (2.0 * _STEP)
        if not np.isfinite(bend).all():
            return not self.marginal.weighs_scales
        # In units; no direction is taken to be wider than two.
        found = np.linalg.eigh(0.5 * (bend + bend.T))
        width = 1.0 / np.sqrt(np.maximum(found[0], 0.25))
        n = int(np.clip(_PAIRED_ROWS // len(self.marginal.rows.y), *_PAIRS))
        n = max(n, 4 * self.dim)
        normal = generator(0).standard_normal((n, self.dim))
        theta = mode + unit * ((normal * width) @ found[1].T)
        return self.marginal.learn_missed(*self.split(theta)[1:])

    def split(self, theta):
        """What the marginal takes: coefficients about the centre, log scales, what all
        rows share.
        """
        beta = self.centring.about(theta)[:, : self.n_columns]
        levels = self._levels(theta)
        levels = np.clip(levels, -_FARTHEST_LEVEL, _FARTHEST_LEVEL)
        return beta, levels[:, : self.n_levels], *levels[:, self.n_levels :].T

    def _levels(self, theta):
        """Logarithms of all scales, and coordinates of correlations."""
        z = theta[:, self.n_columns :].T
        levels = [
            np.log(transform.forward(column))
            for transform, column in zip(self.transforms, z, strict=True)
        ]
        return np.column_stack([np.empty((len(theta), 0)), *levels])

    def log_density(self, theta, strict=False):
        self.ledger.spend(len(theta))
        value = self.marginal.value(*self.split(theta))
        return value + self._prior(theta)[0]

    def value_and_score(self, theta, strict=False):
        self.ledger.spend(len(theta))
        value, score = self.marginal.value_and_score(*self.split(theta))
        more, slope, derivative = self._prior(theta)
        score[:, self.n_columns :] *= derivative
        return value + more, self.centring.pulled(score + slope)

    def log_weights_over(self, mixture, theta, log_weights):
        """Logarithms of weights of draws from a mixture and what a marginal draws."""
        if not self.marginal.weighs_scales:
            return log_weights
        return log_weights + self._prior(theta)[0] - mixture.log_density(theta)

    def _prior(self, theta):
        """Its log density, its gradient about the centre, and derivatives of levels,
        (n_draws, ...).
        """
        n = self.n_columns
        slope, levels = np.zeros(theta.shape), self._levels(theta)
        derivatives, value = np.empty(levels.shape), np.zeros(len(theta))
        if n:
            beta = self.centring.about(theta)[:, :n]
            value, slope[:, :n] = self.prior.value_and_score(beta, self.scale)
        parts = zip(self.level_priors, self.transforms, levels.T, strict=True)
        for k, (prior, transform, level) in enumerate(parts):
            z = theta[:, n + k]
            more, of_level = prior.value_and_score(level)
            # d level / dz, by the chain rule and as a Jacobian.
            log_derivative = transform.log_derivative(z) - level
            derivatives[:, k] = np.exp(log_derivative)
            value = value + more + log_derivative
            slope[:, n + k] = (of_level - 1.0) * derivatives[:, k]
            slope[:, n + k] += transform.log_derivative_slope(z)
        return value, slope, derivatives


class _Shape:
    """What decides how group effects are integrated out."""

    def __init__(self, rows, likelihood, scale):
        factors, n, n_columns = rows.factors, len(rows.y), rows.X.shape[1]
        self.normal, self.none = likelihood is None, not factors
        self.alone = len(factors) < 2
        largest = main_factor(factors) if factors else 0
        rest = [factor for k, factor in enumerate(factors) if k != largest]
        others = sum(factor.size for factor in rest) + n_columns
        given = scale is not None and n_columns > 0
        columns = given and n_columns <= _MOST_COLUMNS
        # One factorisation of a table of rows by coefficients and other effects.
        few = others <= _MOST_COLUMNS and n * others**2 <= _MOST_PRODUCTS
        few = few and not any(factor.correlated for factor in rest)
        self.one_table = columns and (few or not rest)
        # Several correlations of a factor have moments by tens of thousands of draws,
        # of which each would factorise a matrix for the coefficients beside them.
        draws = any(f.correlated and f.n_effects > 2 for f in factors)
        self.sparse = columns and not draws and others <= MOST_OTHERS
        self.nested = len(factors) == 2 and nested_order(factors) is not None
        self.single = len(factors) == 1 and factors[0].n_effects <= 2
        # Of few rows the least, 64 nodes, take no longer than a mode.
        self.three = len(factors) == 1 and factors[0].n_effects == 3 and n <= _FEW_ROWS
        n_levels = sum(f.n_effects + f.correlated for f in factors)
        n_levels += 0 if self.normal else likelihood.n_further
        self.lattice = given and n_levels <= _MOST_LEVELS
        every = sum(factor.size for factor in factors) + n_columns
        self.summed = every <= MOST_OTHERS and 0 < n * n_columns**2 <= _MOST_SUMMED


# What ways to integrate effects out need of a `_Shape`, and what they take beside rows;
# the first that serves is taken.
_WAYS = (
    ("normal one_table", IntegratedNormalMarginal, "scale"),
    ("normal sparse", CrossedNormalMarginal, "scale"),
    # One factor needs no factorisation for each draw, so that many thousands of draws
    # are free and no surrogate stands for them.
    ("normal alone", NormalMarginal, ""),
    ("normal", CrossedNormalMarginal, ""),
    ("none", UngroupedMarginal, "likelihood"),
    ("nested lattice", IntegratedNestedMarginal, "likelihood scale"),
    ("nested", NestedQuadratureMarginal, "likelihood"),
    ("single lattice", IntegratedQuadratureMarginal, "likelihood scale"),
    ("single", QuadratureMarginal, "likelihood"),
    ("three", QuadratureMarginal, "likelihood"),
    ("summed", LaplaceMarginal, "likelihood scale"),
    ("", LaplaceMarginal, "likelihood"),
)


def marginal_of(rows, likelihood=None, scale=None):
    """Log likelihood of grouped rows, effects integrated out; None is normal noise.

    With the scales of normal coefficients these are integrated out, too, where noise is
    normal or by Laplace's method: what is left is a density of scales.
    """
    shape, given = _Shape(rows, likelihood, scale), {"likelihood": likelihood}
    given["scale"] = scale
    for needs, kind, takes in _WAYS:
        if not all(getattr(shape, name) for name in needs.split()):
            continue
        marginal = kind(rows, *(given[name] for name in takes.split()))
        # Known once sums over groups are laid out.
        if getattr(marginal, "n_pairs", 0) <= _MOST_PAIRS:
            return marginal
