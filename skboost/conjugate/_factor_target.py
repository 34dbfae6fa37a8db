"""The posterior over all factors of a matrix: its log density and expectations."""

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy.special import gammaln

from skboost._math import LOG_2PI
from skboost._parallel import SharedWithWorkers, chunked_map, row_blocks
from skboost.conjugate._factor_family import SIDES, FactorFamily
from skboost.targets import Target


@dataclass(frozen=True, eq=False)
class FactorTarget(SharedWithWorkers, Target):
    """``ln p(R, U, V)``, the noise's precision included where it is inferred.

    Parameters
    ----------
    model : MatrixFactorizationModel
    observed : Observed
    n_jobs : int, default=None
        Threads over draws.

    References
    ----------
    Mnih, Salakhutdinov: Probabilistic Matrix Factorization, 2007. Locatello, Dresdner,
    Khanna, Valera, Rätsch: Boosting Black Box Variational Inference, 2018 (section
    5.3).
    """

    model: object
    observed: object
    n_jobs: int | None = None

    exact_gaussian = True

    @cached_property
    def family(self):
        """The family of components with full covariances."""
        return FactorFamily(self.model)

    @property
    def dim(self):
        """Numbers in a draw."""
        return self.family.draws_layout.size

    @property
    def entries(self):
        """The observed entries."""
        return self.observed.entries

    @cached_property
    def _groups(self):
        """Precisions of the factors of both sides and of the noise, in this order."""
        scales = self.model.scales
        return scales["rows"], scales["columns"], self.model.noise

    # --- at draws

    def log_density(self, theta):
        """Log joint of draws (n, dim), shape (n,), nats."""
        return self._at_draws(theta, slopes=False)[0]

    def value_and_score(self, theta):
        """Log joint (n,) and its gradient (n, dim)."""
        return self._at_draws(theta, slopes=True)

    def _at_draws(self, theta, slopes):
        draws = self.family.draws_layout.tree(np.asarray(theta, dtype=float))
        each = [{name: of[k] for name, of in draws.items()} for k in range(len(theta))]
        evaluate = partial(_at_draw, slopes)
        found = chunked_map(evaluate, each, self.n_jobs, shared=self.shared)
        values = np.array([value for value, _ in found])
        return values, np.array([slope for _, slope in found]) if slopes else None

    def at_draw(self, draw, slopes):
        """Log joint of one draw and its gradient, None without `slopes`."""
        sides = [draw[name] for name in SIDES]
        logs = self._logs({name: draw[name] for name in self.family.gammas})
        precisions = [np.exp(log) for log in logs]
        rows, columns = self._augmented(sides)
        residuals = self._residuals(rows, columns)
        squares = [np.sum(side**2, axis=0) for side in sides]
        squares.append(residuals @ residuals)
        value = self._value(squares, precisions, logs)
        if not slopes:
            return value, None
        by_entry = self.entries.matrix(residuals)
        pulls = self._free([by_entry @ columns, by_entry.T @ rows])
        found = [
            precisions[2] * pull - own * side
            for pull, own, side in zip(pulls, precisions[:2], sides, strict=True)
        ]
        return value, self._joined(found, self._log_slopes(squares, precisions))

    def _residuals(self, rows, columns):
        """Values minus inner products of augmented factors, shape (n_entries,)."""
        at = self.entries
        residuals = np.array(at.values, dtype=float)
        for block in row_blocks(len(at), 2 * rows.shape[1]):
            pair = rows[at.rows[block]], columns[at.columns[block]]
            residuals[block] -= np.einsum("ij,ij->i", *pair)
        return residuals

    # --- from sums of squares

    @property
    def _counts(self):
        """Normal variables that have each of the precisions."""
        return *self.model.shape, len(self.entries)

    def _logs(self, inferred):
        """Logarithms of all precisions, given those that are inferred by name."""
        return [
            inferred[group.name] if group.factors else group.expected(None)[1]
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

    def _log_slopes(self, squares, precisions):
        """Derivatives of `_value` in the logarithms of the inferred precisions."""
        return [
            0.5 * count + group.prior["shape"] + self._through(group, total, precision)
            for group, count, total, precision in zip(
                self._groups, self._counts, squares, precisions, strict=True
            )
            if group.factors
        ]

    @staticmethod
    def _through(group, total, precision):
        """The part of a slope that goes through the precision itself."""
        return -precision * (0.5 * total + group.prior["rate"])

    # --- flat rows and augmented factors

    def _augmented(self, sides, constant=1.0):
        """Factors of rows and columns with the constants that stand beside biases."""
        made = []
        for name, side in zip(SIDES, sides, strict=True):
            own = getattr(self.model, name)
            wide = np.full((len(side), own.n_augmented), float(constant))
            wide[:, own.free] = side
            made.append(wide)
        return made

    def _free(self, sides):
        """Augmented factors without the constants."""
        own = [getattr(self.model, name).free for name in SIDES]
        return [side[:, free] for side, free in zip(sides, own, strict=True)]

    @staticmethod
    def _joined(sides, last):
        """A row of numbers, as draws are laid out."""
        return np.concatenate([np.ravel(part) for part in (*sides, *last)])

    # --- expectations

    def expected_log_density(self, mean, variance, factor=None):
        """E[log joint] under a component, exactly.

        Parameters
        ----------
        mean : ndarray of shape (dim,) or None
        variance : ndarray of shape (dim,) or dict
            Of a diagonal Gaussian; or the natural parameters of a member of
            `FactorFamily`.
        factor : None

        Returns
        -------
        value : float
            Nats.
        g_mean, g_variance : ndarray of shape (dim,), or None
            Gradients, for a diagonal Gaussian.
        g_factor : None
        """
        if isinstance(variance, dict):
            entropy = self.family.entropy(self.family.params(variance))
            return self.bound(variance) - entropy, None, None, None
        return *self._expected_diagonal(mean, variance), None

    def bound(self, natural):
        """ELBO of a member of `FactorFamily` alone, nats."""
        evidence = self.model.expect(natural, self.observed).evidence
        return self.model.elbo(natural, evidence)

    def _expected_diagonal(self, mean, variance):
        tree = self.family.draws_layout.tree
        mean, variance = tree(mean[None]), tree(variance[None])
        means, variances = ([t[name][0] for name in SIDES] for t in (mean, variance))
        logs = self._logs({name: mean[name][0] for name in self.family.gammas})
        widths = self._widths(variance)
        precisions = [
            np.exp(log + 0.5 * w) for log, w in zip(logs, widths, strict=True)
        ]
        errors, pulls, bends = self._expected_errors(means, variances)
        squares = [
            np.sum(side**2 + own, axis=0)
            for side, own in zip(means, variances, strict=True)
        ]
        squares.append(errors)
        g_means, g_variances = [], []
        for k, own in enumerate(precisions[:2]):
            g_means.append(precisions[2] * pulls[k] - own * means[k])
            g_variances.append(-0.5 * (precisions[2] * bends[k] + own))
        last = [
            0.5 * self._through(group, total, precision)
            for group, total, precision in zip(
                self._groups, squares, precisions, strict=True
            )
            if group.factors
        ]
        return (
            self._value(squares, precisions, logs),
            self._joined(g_means, self._log_slopes(squares, precisions)),
            self._joined(g_variances, last),
        )

    def _widths(self, variance):
        """Variances of the logarithms of all precisions."""
        return [
            variance[group.name][0] if group.factors else 0.0 for group in self._groups
        ]

    def _expected_errors(self, means, variances):
        """Expected squared errors under diagonal Gaussians, with what slopes need.

        Returns
        -------
        errors : float
        pulls, bends : list of ndarray
            Minus half the slope in the means, and the slope in the variances.
        """
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
        return float(errors), self._free(pulls), self._free(bends)


def _at_draw(slopes, target, draw):
    return target.at_draw(draw, slopes)
