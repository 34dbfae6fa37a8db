"""Bayesian matrix factorisation as a conjugate model; precisions known or Gamma."""

from functools import cached_property

import numpy as np
from scipy.special import digamma, gammaln

from skboost._parallel import row_blocks
from skboost.conjugate._natural import Cone, natural_step
from skboost.conjugate.factorization._factors import (
    GaussianFactors,
    ObservedEntries,
    WeightedEntries,
    times_in_full,
)


class MatrixExpectation:
    """Entries whose sums the factors take, and the bound's part of them."""

    local = None

    def __init__(self, model, natural, statistics):
        self.statistics = statistics
        self._model, self._natural = model, natural

    @cached_property
    def evidence(self):
        """E[ln p(values | factors)] of the first weighting, once it is asked for."""
        return self._model.log_likelihood(self._natural, self.statistics[0])


class _Side(GaussianFactors):
    """Factors of one side of a model, as `natural_step` takes them."""

    def __init__(self, model, *args):
        super().__init__(*args)
        self._model = model

    def target(self, natural, statistics):
        """The optimum of q given the other side's."""
        other = self._model.other[self.name]
        # Noise by embedding has entries of its own for either side.
        entries = statistics.get(self.name, statistics["entries"])
        sums = entries.sums(self.name, other.moments(natural[other.name]))
        noise, _ = self._model.noise.expected(natural)
        shared, _ = self._model.scales[self.name].expected(natural)
        return self.regressed(sums, noise, shared, self.prior)

    def own_squares(self, natural, statistics):
        """How many Gaussians there are, and their sums of squares."""
        own = natural[self.name]
        return len(own["first"]), self.squares(own)


class MatrixFactorizationModel:
    """Normal factors, and normal noise on the observed entries.

    ``R_ij ~ N(mu + b_i + c_j + u_i'v_j, 1 / tau)`` (Paisley et al., section IV-A;
    Locatello et al., section 5.3), and q a product of a Gaussian for each row and
    column and of Gammas of the precisions that are not known. Values are about mu
    already. The moments of the last natural parameters are remembered: each run should
    have a model of its own.
    """

    temperature = 1.0

    def __init__(
        self,
        shape,
        n_components,
        noise_scale=None,
        prior_scale=None,
        magnitude=1.0,
        biases=False,
        dtype=np.float64,
        priors=None,
    ):
        self.settings = {
            "shape": shape, "n_components": n_components, "noise_scale": noise_scale,
            "prior_scale": prior_scale, "magnitude": magnitude, "biases": biases,
        }  # fmt: skip
        self.shape, self.n_components, self.biases = shape, n_components, biases
        # `magnitude` is the root mean square of the values. Without a noise_scale the
        # precision has a Gamma(1/2, magnitude^2 / 2) prior, worth one entry; without a
        # prior_scale those of each coordinate and side have priors worth one variable.
        self.dtype, self.magnitude = np.dtype(dtype), magnitude
        priors = {} if priors is None else priors
        # (u, b, 1) and (v, 1, c).
        free = np.arange(n_components + biases)
        turned = np.append(free[:n_components], n_components + 1) if biases else free
        last, before = (n_components + 1, n_components) if biases else (None, None)
        self.rows = _Side(self, "rows", free, last, dtype, priors.get("rows"))
        self.columns = _Side(
            self, "columns", turned, before, dtype, priors.get("columns")
        )
        self.sides = {"rows": self.rows, "columns": self.columns}
        self.other = {"rows": self.columns, "columns": self.rows}
        self.scales = {
            side.name: self._scales(side, prior_scale)
            for side in (self.rows, self.columns)
        }
        if noise_scale is None:
            prior = priors.get("noise", worth_one(magnitude**2))
            self.noise = GammaPrecisions("noise", prior, self._squared_errors)
        else:
            self.noise = KnownPrecisions(noise_scale)
        more = [scales.factors for scales in self.scales.values()]
        self.factors = (self.rows, self.columns, *sum(more, ()), *self.noise.factors)

    @property
    def typical_variances(self):
        """Of factors, and biases, that explain values of the magnitude, (p,)."""
        variances = np.full(self.rows.dim, self.magnitude / np.sqrt(self.n_components))
        variances[self.n_components :] = self.magnitude**2
        return variances

    def _scales(self, side, prior_scale):
        if prior_scale is None:
            name = {"rows": "row_scales", "columns": "column_scales"}[side.name]
            prior = worth_one(self.typical_variances)
            return GammaPrecisions(name, prior, side.own_squares)
        if isinstance(prior_scale, dict):
            return KnownPrecisions(np.asarray(prior_scale[side.name], dtype=float))
        return KnownPrecisions(np.full(side.dim, float(prior_scale)))

    # --- expectations over the entries

    def expect(self, natural, observed, *weightings):
        """Entries with their weights, by side or for both, and the evidence of the
        first weighting."""
        sides = any(isinstance(weight, dict) for weight in weightings)
        statistics = []
        for weight in weightings or (None,):
            if isinstance(weight, dict):
                parts = weight | {"entries": np.zeros(len(observed))}
                made = {k: self._weighted(observed, w) for k, w in parts.items()}
            else:
                names = ("entries", "rows", "columns") if sides else ("entries",)
                made = dict.fromkeys(names, self._weighted(observed, weight))
            statistics.append(made)
        return MatrixExpectation(self, natural, tuple(statistics))

    def _weighted(self, observed, weight):
        if weight is not None:
            weight = np.asarray(weight, dtype=self.dtype)
        return WeightedEntries(observed, weight)

    def _squared_errors(self, natural, statistics):
        """Weight of all entries, and sum of E[(R_ij - u_i'v_j - b_i - c_j)^2]."""
        entries = statistics["entries"]
        rows = self.rows.moments(natural["rows"])
        columns = self.columns.moments(natural["columns"])
        second, first = entries.sums("columns", rows)
        above, beside = np.triu_indices(second.shape[1])
        products = np.sum(columns.second * second[:, above, beside], 0, dtype=float)
        squares = products @ times_in_full(second.shape[1])
        crossed = np.sum(first * columns.augmented, dtype=float)
        errors = max(float(entries.squares - 2.0 * crossed + squares), 0.0)
        return entries.total, errors

    def log_likelihood(self, natural, statistics):
        """E[ln p(values | factors)], nats."""
        precision, log_precision = self.noise.expected(natural)
        total, squares = self._squared_errors(natural, statistics)
        log_2pi = float(np.log(2.0 * np.pi))
        log_density = total * (log_precision - log_2pi) - precision * squares
        return 0.5 * float(log_density)

    def elbo(self, natural, evidence):
        """The evidence lower bound, nats, with every constant."""
        return float(evidence - self.kl(natural))

    def kl(self, natural):
        """KL of q from the prior, nats."""
        kl = self.noise.kl(natural)
        for side in (self.rows, self.columns):
            scales = self.scales[side.name]
            kl += scales.kl(natural)
            kl += side.kl(natural[side.name], *scales.expected(natural))
        return kl

    # --- updates

    def updated(self, natural, statistics):
        """Every factor in turn at its optimum."""
        return natural_step(self.factors, natural, statistics, 1.0).natural

    def start(self, rng):
        """Random factors of columns from which those of rows follow."""
        # Standard deviation of the means of the factors, in units of those of which
        # products vary as the values do.
        spread, variances = 0.3, self.typical_variances
        shape = self.shape[1], self.n_components
        means = np.zeros((self.shape[1], self.columns.dim))
        means[:, : self.n_components] = rng.standard_normal(shape)
        means *= spread * np.sqrt(variances)
        zero = np.zeros((self.shape[0], self.rows.dim))
        natural = {
            "rows": self.rows.start(zero, variances),
            "columns": self.columns.start(means, 0.01 * spread**2 * variances),
        }
        for scales in self.scales.values():
            natural |= scales.start(variances)
        return natural | self.noise.start(self.magnitude**2)

    def folded_in(self, natural, entries):
        """The optimal factors of other rows given those of the columns: `Moments`."""
        columns = self.columns.moments(natural["columns"])
        sums = WeightedEntries(ObservedEntries(entries)).sums("rows", columns)
        noise, _ = self.noise.expected(natural)
        shared, _ = self.scales["rows"].expected(natural)
        return self.rows.stack(self.rows.regressed(sums, noise, shared))


def predicted_entries(rows, columns, pairs):
    """Mean and variance of ``u_i'v_j + b_i + c_j`` at pairs of positions."""
    twice = times_in_full(rows.augmented.shape[1])
    means, variances = [np.empty(0)], [np.empty(0)]
    for block in row_blocks(len(pairs[0]), 4 * len(twice)):
        i, j = pairs[0][block], pairs[1][block]
        means.append(np.sum(rows.augmented[i] * columns.augmented[j], 1, dtype=float))
        packed = rows.spread[i] * columns.second[j] + rows.outer[i] * columns.spread[j]
        variances.append(packed @ twice)
    return np.concatenate(means), np.concatenate(variances)


def predicted_rows(rows, columns):
    """The same at all entries, shape (n_rows, n_columns)."""
    mean = rows.augmented @ columns.augmented.T
    variance = rows.spread * times_in_full(rows.augmented.shape[1]) @ columns.second.T
    outer = rows.outer * times_in_full(rows.augmented.shape[1])
    return mean, variance + outer @ columns.spread.T


class KnownPrecisions:
    """Precisions that are given by standard deviations."""

    factors = ()

    def __init__(self, scale):
        self.scale = scale

    def expected(self, natural):
        """E[tau] and E[ln tau]."""
        return self.scale**-2.0, -2.0 * np.log(self.scale)

    def variance(self, natural):
        """1 / E[tau]."""
        return self.scale**2.0

    def kl(self, natural):
        """Nothing is inferred."""
        return 0.0

    def start(self, variance):
        """No natural parameters."""
        return {}


def worth_one(variance):
    """Prior of precisions that is worth one normal variable of this variance."""
    variance = np.asarray(variance, dtype=float)
    return {"shape": np.full(variance.shape, 0.5), "rate": 0.5 * variance}


class GammaPrecisions:
    """Precisions ~ Gamma; `evidence` counts their variables and sums the squares."""

    def __init__(self, name, prior, evidence):
        self.name, self.prior, self._evidence = name, prior, evidence

    @property
    def factors(self):
        """The one factor: this."""
        return (self,)

    def target(self, natural, statistics):
        """The optimum of q."""
        count, squares = self._evidence(natural, statistics)
        return {
            "shape": self.prior["shape"] + 0.5 * count,
            "rate": self.prior["rate"] + 0.5 * squares,
        }

    def cone(self, own):
        """Shape and rate must be positive."""
        return Cone((own["shape"], own["rate"]))

    def expected(self, natural):
        """E[tau] and E[ln tau]."""
        shape, rate = natural[self.name]["shape"], natural[self.name]["rate"]
        return shape / rate, digamma(shape) - np.log(rate)

    def variance(self, natural):
        """1 / E[tau], which is finite for any number of observations."""
        return natural[self.name]["rate"] / natural[self.name]["shape"]

    def kl(self, natural):
        """KL of all of them from the prior, nats."""
        a, b = natural[self.name]["shape"], natural[self.name]["rate"]
        c, d = self.prior["shape"], self.prior["rate"]
        kl = (a - c) * digamma(a) - gammaln(a) + gammaln(c)
        return float(np.sum(kl + c * np.log(b / d) + a * (d / b - 1.0)))

    def start(self, variance):
        """Natural parameters with given variances, and little weight."""
        shape = self.prior["shape"] + 1.0
        return {self.name: {"shape": shape, "rate": shape * variance}}
