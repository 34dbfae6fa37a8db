"""Factors of a matrix as a family and a target: parameters and draws as flat rows."""

from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

import numpy as np
from scipy.special import digamma, gammaln

from skboost._math import LOG_2PI
from skboost._parallel import SharedWithWorkers, chunked_map, row_blocks
from skboost.conjugate._draws import Layout, RowFamily
from skboost.targets import Target

SIDES = ("rows", "columns")


@dataclass(frozen=True, eq=False)
class FactorFamily(RowFamily):
    """Products of a Gaussian for each row and column, and of Gammas of precisions."""

    model: object
    exact_expectations = True

    @property
    def gammas(self):
        """Names of the inferred precisions."""
        return tuple(self._gamma_shapes)

    @cached_property
    def draws_layout(self):
        """`Layout` of draws."""
        counts = dict(zip(SIDES, self.model.shape, strict=True))
        shapes = {name: (n, self.model.sides[name].dim) for name, n in counts.items()}
        return Layout(shapes | self._gamma_shapes)

    @cached_property
    def _gamma_shapes(self):
        return {f.name: np.shape(f.prior["rate"]) for f in self.model.factors[2:]}

    @cached_property
    def _natural_layout(self):
        shapes = self.draws_layout.shapes
        layout = {
            name: {"precision": (*shapes[name], shapes[name][1]), "first": shapes[name]}
            for name in SIDES
        }
        for name, shape in self._gamma_shapes.items():
            layout[name] = {"shape": shape, "rate": shape}
        return Layout(layout)

    def structure(self, params):
        """What `FactorTarget.expected_log_density` takes: natural parameters."""
        return None, self.natural(params), None

    # --- draws and densities

    def transport(self, params, eps):
        """Draws (n, dim) from a stream."""
        natural, made = self.natural(params), {}
        for name in SIDES:
            mean, root = self._mean_and_root(natural[name])
            noise = eps.rng.standard_normal((*mean.shape, eps.n))
            away = np.linalg.solve(np.swapaxes(root, 1, 2), noise)
            made[name] = np.moveaxis(mean[:, :, None] + away, 2, 0)
        for name, shape in self._gamma_shapes.items():
            own = natural[name]
            draws = eps.rng.standard_gamma(own["shape"], (eps.n, *shape))
            made[name] = np.log(draws) - np.log(own["rate"])
        return self.draws_layout.flat(made)

    def _mean_and_root(self, own):
        """Means, and Cholesky factors of the precisions."""
        root = np.linalg.cholesky(own["precision"])
        mean = np.linalg.solve(own["precision"], own["first"][:, :, None])[:, :, 0]
        return mean, root

    def log_density(self, theta, params):
        """Log densities of draws (n, dim), shape (n,), nats."""
        natural, draws = self.natural(params), self.draws_layout.tree(theta)
        log_density = np.zeros(len(theta))
        for name in SIDES:
            mean, root = self._mean_and_root(natural[name])
            away = np.moveaxis(draws[name] - mean, 0, 2)
            z = np.swapaxes(root, 1, 2) @ away
            log_density -= 0.5 * np.einsum("nps,nps->s", z, z)
            log_density += _log_roots(root) - 0.5 * mean.size * LOG_2PI
        for name in self.gammas:
            shape, rate = natural[name]["shape"], natural[name]["rate"]
            eta = draws[name]
            each = shape * (np.log(rate) + eta) - rate * np.exp(eta) - gammaln(shape)
            log_density += each.reshape(len(theta), -1).sum(axis=1)
        return log_density

    def entropy(self, params):
        """Differential entropy of a draw, nats."""
        natural, entropy = self.natural(params), 0.0
        for name in SIDES:
            mean, root = self._mean_and_root(natural[name])
            entropy += 0.5 * mean.size * (1.0 + LOG_2PI) - _log_roots(root)
        for name in self.gammas:
            shape = natural[name]["shape"]
            entropy += np.sum(shape + gammaln(shape) - shape * digamma(shape))
        return float(entropy)

    # --- moments

    def mean(self, params):
        """Means of the coordinates of a draw, shape (dim,)."""
        natural = self.natural(params)
        means = {n: self._mean_and_root(natural[n])[0][None] for n in SIDES}
        for name in self.gammas:
            own = natural[name]
            means[name] = (digamma(own["shape"]) - np.log(own["rate"]))[None]
        return self.draws_layout.flat(means)[0]

    location = mean


def _log_roots(root):
    return float(np.log(np.diagonal(root, axis1=1, axis2=2)).sum())


@dataclass(frozen=True, eq=False)
class FactorTarget(SharedWithWorkers, Target):
    """``ln p(R, U, V)``, the noise's precision included where it is inferred."""

    model: object
    observed: object
    n_jobs: int | None = None

    exact_gaussian = True

    @cached_property
    def family(self):
        """The family of components with full covariances."""
        return FactorFamily(self.model)

    dim = property(attrgetter("family.draws_layout.size"), doc="Numbers in a draw.")

    entries = property(attrgetter("observed.entries"), doc="The observed entries.")

    @cached_property
    def _groups(self):
        """Precisions of the factors of both sides and of the noise, in this order."""
        scales = self.model.scales
        return scales["rows"], scales["columns"], self.model.noise

    # --- at draws

    def log_density(self, theta, strict=False):
        """Log joint of draws (n, dim), shape (n,), nats."""
        self.ledger.spend(len(theta))
        draws = self.family.draws_layout.tree(np.asarray(theta, dtype=float))
        each = [{name: of[k] for name, of in draws.items()} for k in range(len(theta))]
        values = chunked_map(FactorTarget.at_draw, each, self.n_jobs, shared=self)
        return np.array(values)

    def at_draw(self, draw):
        """Log joint of one draw, nats."""
        sides, logs = [draw[name] for name in SIDES], self._logs(draw)
        residuals = self._residuals(*self._augmented(sides))
        squares = [np.sum(side**2, axis=0) for side in sides]
        squares.append(residuals @ residuals)
        return self._value(squares, [np.exp(log) for log in logs], logs)

    def value_and_score(self, theta, strict=False):
        """Log joint (n,) and its gradient (n, dim)."""
        self.ledger.spend(len(theta))
        # A draw is a Gaussian without a width.
        none = np.zeros(self.dim)
        each = [self._expected_diagonal(one, none) for one in np.asarray(theta, float)]
        values, scores, _ = zip(*each, strict=True)
        return np.array(values), np.array(scores)

    def _residuals(self, rows, columns):
        """Values minus inner products of augmented factors, shape (n_entries,)."""
        at = self.entries
        residuals = np.array(at.values, dtype=float)
        for block in row_blocks(len(at), 2 * rows.shape[1]):
            pair = rows[at.rows[block]], columns[at.columns[block]]
            residuals[block] -= np.einsum("ij,ij->i", *pair)
        return residuals

    def _augmented(self, sides, constant=1.0):
        """Factors of rows and columns with the constants that stand beside biases."""
        both = zip(self.model.sides.values(), sides, strict=True)
        return [own.augmented(side, constant) for own, side in both]

    # --- from sums of squares

    @property
    def _counts(self):
        """Normal variables that have each of the precisions."""
        return *self.model.shape, len(self.entries)

    def _logs(self, draw):
        """Logarithms of all precisions; those that are inferred are in the draw."""
        return [
            draw[group.name] if group.factors else group.expected(None)[1]
            for group in self._groups
        ]

    def _value(self, squares, precisions, logs):
        """Log joint from (expected) sums of squares, precisions and their logs."""
        value = 0.0
        parts = zip(self._groups, self._counts, squares, precisions, logs, strict=True)
        for group, count, total, precision, log in parts:
            value += 0.5 * np.sum(count * (log - LOG_2PI) - precision * total)
            if group.factors:
                shape, rate = group.prior["shape"], group.prior["rate"]
                prior = shape * (np.log(rate) + log) - rate * precision
                value += np.sum(prior - gammaln(shape))
        return float(value)

    # --- expectations

    def expected_log_density(self, mean, variance, factor=None):
        """E[log joint] under a component, with gradients in mean and variance of a
        diagonal one."""
        self.ledger.spend()
        if isinstance(variance, dict):
            entropy = self.family.entropy(self.family.params(variance))
            return self.bound(variance) - entropy, None, None, None
        return *self._expected_diagonal(mean, variance), None

    def bound(self, natural):
        """ELBO of a member of `FactorFamily` alone, nats."""
        self.ledger.spend()
        evidence = self.model.expect(natural, self.observed).evidence
        return self.model.elbo(natural, evidence)

    def _expected_diagonal(self, mean, variance):
        """E[log joint] under a diagonal Gaussian, and its gradients in both."""
        tree = self.family.draws_layout.tree
        mean, variance = (
            {name: values[0] for name, values in tree(row[None]).items()}
            for row in (mean, variance)
        )
        means, variances = ([of[name] for name in SIDES] for of in (mean, variance))
        logs = self._logs(mean)
        widths = [variance[g.name] if g.factors else 0.0 for g in self._groups]
        precisions = [
            np.exp(log + 0.5 * w) for log, w in zip(logs, widths, strict=True)
        ]
        errors, pulls, bends = self._expected_errors(means, variances)
        squares = [
            np.sum(side**2 + own, axis=0)
            for side, own in zip(means, variances, strict=True)
        ]
        squares.append(errors)
        g_mean, g_variance = [], []
        for k, own in enumerate(precisions[:2]):
            g_mean.append(precisions[2] * pulls[k] - own * means[k])
            g_variance.append(-0.5 * (precisions[2] * bends[k] + own))
        parts = zip(self._groups, self._counts, squares, precisions, strict=True)
        for group, count, total, precision in parts:
            if group.factors:
                through = -precision * (0.5 * total + group.prior["rate"])
                g_mean.append(0.5 * count + group.prior["shape"] + through)
                g_variance.append(0.5 * through)
        slopes = (
            np.concatenate([np.ravel(part) for part in slope])
            for slope in (g_mean, g_variance)
        )
        return self._value(squares, precisions, logs), *slopes

    def _expected_errors(self, means, variances):
        """Expected squared errors, minus half their slopes in means, and slopes in
        variances."""
        rows, columns = self._augmented(means)
        row_var, column_var = self._augmented(variances, constant=0.0)
        pattern, _ = self.observed.sides["rows"]
        residuals = self._residuals(rows, columns)
        # What the variances of the other side add to the curvature in each factor.
        spread, back = pattern @ column_var, pattern.T @ row_var
        bends = [pattern @ columns**2 + spread, pattern.T @ rows**2 + back]
        errors = residuals @ residuals + np.sum(row_var * bends[0])
        errors += np.sum(rows**2 * spread)
        by_entry = self.entries.matrix(residuals)
        pulls = [by_entry @ columns - rows * spread, by_entry.T @ rows - columns * back]
        free = [side.free for side in self.model.sides.values()]
        pulls, bends = (
            [side[:, own] for side, own in zip(both, free, strict=True)]
            for both in (pulls, bends)
        )
        return float(errors), pulls, bends
