"""Scales and correlations of group effects: names, priors and transforms of each."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from sklearn.base import clone

from skboost.hierarchy import Covariances
from skboost.linear_model._group_columns import by_factor
from skboost.linear_model._summary import column_moments
from skboost.targets import HalfTPrior, ScalePrior
from skboost.transforms import Correlation, Interval, LowerBound, Scale

# Scale of the half-t prior of standard deviations of effects, in units of the linear
# predictor, as brms has it.
_HALF_T = 2.5


@dataclass(frozen=True, eq=False)
class Levels:
    """What is learned beside coefficients: scales of effects, correlations, and what
    all rows share, such as noise.

    `transforms` lead from coordinates to exponentials of levels, whose priors are
    `priors`: levels are logarithms of scales, and coordinates of correlations.
    """

    names: tuple
    priors: tuple
    transforms: tuple
    covariances: Covariances

    def start(self, size):
        """Coordinates of scales of this size without correlations."""
        n, last = self.covariances.n_scales, self.covariances.n_levels
        size = np.array(size)
        return [
            0.0 if n <= k < last else transform.inverse(size)
            for k, transform in enumerate(self.transforms)
        ]

    def constraints(self, first):
        """Of the coordinates as users know them, counted from `first`."""
        n, last = self.covariances.n_scales, self.covariances.n_levels
        found = {
            first + k: transform
            for k, transform in enumerate(self.transforms)
            if not n <= k < last
        }
        for _, place in self.covariances.places:
            block = tuple(range(first + place.start, first + place.stop))
            if len(block) == 1:
                found[block] = Interval(-1.0, 1.0)
            elif block:
                found[block] = Correlation()
        return found

    def as_known(self, levels):
        """Standard deviations and correlations, (n_draws, n_levels)."""
        scales = np.exp(levels[:, : self.covariances.n_scales])
        return np.hstack([scales, self.covariances.correlations(levels)])


def levels_of_groups(data, estimator, unit, response):
    """`Levels` of an estimator's parameters for `GroupedData`."""
    columns, grouped = data.columns, data.rows.factors
    scales = [*_scales(data, estimator.scale_prior, unit)]
    correlations = []
    for factor in data.factors:
        prior = columns.correlated[factor.name]
        if prior is not None:
            effects = columns.effects_of(factor.name)
            names = [
                f"cor({factor.name}: {first}, {second})"
                for second, first in _below(effects)
            ]
            priors = prior.of_coordinates(len(effects))
            transforms = [LowerBound() for _ in names]
            correlations += zip(names, priors, transforms, strict=True)
    shared = response.further(unit).items()
    further = [(name, prior, LowerBound()) for name, prior in shared]
    parts = zip(*scales, *correlations, *further, strict=True)
    names, priors, transforms = [*parts] or ((), (), ())
    return Levels(names, priors, transforms, Covariances.of(grouped))


def _below(effects):
    """Pairs of effects in the order of the entries below a diagonal, row by row."""
    places = sorted((k, r) for r, k in combinations(range(len(effects)), 2))
    return [(effects[k], effects[r]) for k, r in places]


def _scales(data, chosen, unit):
    """Names of the scales of effects, priors in their units, and transforms."""
    weight, (_, spread) = data.rows.weight, column_moments(data.table)
    chosen = _chosen(chosen, data.columns)
    for factor, codes in zip(data.factors, data.rows.factors, strict=True):
        names = data.columns.scales_of(factor.name)
        units = np.append(np.ones(int(factor.intercept)), spread[factor.slopes])
        for name, size, column in zip(names, units, codes.columns.T, strict=True):
            prior = chosen.get(name, chosen.get(factor.name))
            if prior is None:
                prior = HalfTPrior(3.0, _HALF_T * unit.size / size)
            # An effect as large as its error would be if every group stood alone.
            rows = max(weight @ column**2 / codes.n_groups, 1e-300)
            yield name, prior, Scale(unit.error / np.sqrt(rows))


def _chosen(chosen, columns):
    """Priors of scales by the name of one or of its factor; None is the default."""
    factors = columns.factors
    if not isinstance(chosen, dict):
        return dict.fromkeys(factors, _checked(chosen, "all factors"))
    named = {name for factor in factors for name in columns.scales_of(factor)}
    place = {name: i for i, name in enumerate(columns.names)}
    rest = {key: one for key, one in chosen.items() if key not in named}
    found = by_factor("scale_prior", rest, factors, place)
    found |= {key: one for key, one in chosen.items() if key in named}
    return {key: _checked(one, repr(key)) for key, one in found.items()}


def _checked(prior, name):
    if isinstance(prior, ScalePrior):
        return clone(prior).checked()
    if prior != "half_t":
        raise ValueError(
            "scale_prior must be 'half_t', a ScalePrior of skboost.priors, or a dict "
            f"from factors to these; got {prior!r} of {name}."
        )
    return None
