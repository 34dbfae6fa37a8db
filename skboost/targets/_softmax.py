"""Log joint density of multinomial logistic regression."""

import numpy as np

from skboost._parallel import row_blocks
from skboost.targets._design import Design
from skboost.targets._glm import GLMTarget


class SoftmaxTarget(GLMTarget):
    """Log joint density of Bayesian logistic regression with K classes.

    Every class has its own coefficients (the symmetric parameterisation); the prior
    identifies them.

    Parameters
    ----------
    X : float array or CSR matrix (n_samples, n_features)
    y : int array (n_samples,) of 0, ..., n_classes - 1
    n_classes : int
    sample_weight, temperature, prior, fit_intercept, n_jobs
        As in ``LogisticTarget``.
    scale : float or array (dim,) or (n_features [+ 1],), default=None
        Prior scales; one class's worth is used for every class.

    Attributes
    ----------
    dim : int
        n_classes * (n_features [+ 1]), class after class, each class's intercept
        after its coefficients.
    """

    def __init__(
        self,
        X,
        y,
        n_classes,
        *,
        sample_weight=None,
        temperature=1.0,
        prior=None,
        scale=None,
        fit_intercept=True,
        n_jobs=None,
    ):
        design = Design(X, fit_intercept, n_jobs)
        if scale is not None and np.shape(scale) == (design.dim,):
            scale = np.tile(scale, n_classes)
        super().__init__(design, n_classes, sample_weight, temperature, prior, scale)
        self.n_classes = n_classes
        self.y = np.asarray(y)
        valid = self.y.shape == (design.n_samples,)
        valid = valid and np.issubdtype(self.y.dtype, np.integer)
        if not valid or self.y.min() < 0 or self.y.max() >= n_classes:
            raise ValueError(
                f"y must hold integers in 0..{n_classes - 1}, shape "
                f"({design.n_samples},); encode the classes first."
            )
        (self._linear,) = design.sum_rows(self._observed, design.dim + n_classes)
        # Sums of n_classes terms of at most 1 stay far from overflow in a product.
        self._limit = max(1, min(512, int(600 / np.log(max(2, n_classes)))))

    def _observed(self, rows, block):
        """X^T (w * one-hot y): the likelihood's linear part, (dim,) class-major."""
        weighted = np.zeros((rows.stop - rows.start, self.n_classes))
        weighted[np.arange(weighted.shape[0]), self.y[rows]] = self._weights(rows)
        return (block.pull(weighted).T.ravel(),)

    def _columns(self, theta):
        """Coefficients of class k for all draws: array (K, design.dim, n_draws)."""
        stacked = theta.reshape(-1, self.n_classes, self.design.dim)
        return np.ascontiguousarray(stacked.transpose(1, 2, 0))

    def _exponentials(self, block, columns):
        """exp(eta - top) (K, n, S), their sum and top = max over classes (n, S)."""
        eta = np.stack([block.apply(column) for column in columns])
        top = eta.max(axis=0)
        eta -= top
        np.exp(eta, out=eta)
        return eta, eta.sum(axis=0), top

    def _sum_normaliser(self, total, top, rows):
        value = self._sum_weighted(top, rows)
        return value + self._sum_weighted_log(total, rows, self._limit)

    def _log_likelihood(self, theta):
        columns = self._columns(theta)

        def normaliser(rows, block):
            _, total, top = self._exponentials(block, columns)
            return (self._sum_normaliser(total, top, rows),)

        width = (self.n_classes + 2) * theta.shape[0]
        (value,) = self.design.sum_rows(normaliser, width)
        return theta @ self._linear - value

    def _value_and_slope(self, theta):
        columns = self._columns(theta)

        def normaliser(rows, block):
            exp, total, top = self._exponentials(block, columns)
            exp *= self._weights(rows)[:, None] / total
            slope = np.stack([block.pull(part) for part in exp])
            return self._sum_normaliser(total, top, rows), slope

        width = (self.n_classes + 2) * theta.shape[0]
        value, slope = self.design.sum_rows(normaliser, width, theta.size)
        score = self._linear - slope.transpose(2, 0, 1).reshape(theta.shape)
        return theta @ self._linear - value, score

    def curvature(self, theta):
        """Averages over draws of the log joint, its gradient and minus its Hessian.

        Rows are averaged over the draws first, so that the Gram matrices cost the
        same for one draw and for a thousand.

        Parameters
        ----------
        theta : array (n_draws, dim)

        Returns
        -------
        value : float, in nats
        gradient : array (dim,)
        curvature : array (dim, dim), symmetric
            The prior's part is its expected curvature under a Gaussian with the
            draws' means and variances, which is defined for a prior with a kink too.
        """
        theta = self._checked(theta)
        columns = self._columns(theta)
        n_pairs = self.n_classes * (self.n_classes + 1) // 2

        def part(rows, block):
            value, mean, products = self._row_averages(rows, columns)
            slope = np.stack([block.pull(column) for column in mean])
            return value, slope.ravel(), self._grams(block, mean, products)

        width = max(self.design.dim, n_pairs)
        value, slope, curvature = self.design.sum_rows(part, width, self.dim**2)
        value = theta.mean(axis=0) @ self._linear - value
        return self._add_prior(theta, value, self._linear - slope, curvature)

    def _row_averages(self, rows, columns):
        """Weighted averages over draws of ln normaliser, p_k and p_k p_l per row."""
        n_classes, _, n_draws = columns.shape
        first, second = np.triu_indices(n_classes)
        n_rows = rows.stop - rows.start
        mean, products = np.empty((n_classes, n_rows)), np.empty((first.size, n_rows))
        value = 0.0
        for inner in row_blocks(n_rows, (n_classes + 2) * n_draws):
            outer = slice(rows.start + inner.start, rows.start + inner.stop)
            weight = self._weights(outer) / n_draws
            p, total, top = self._exponentials(self.design.block(outer), columns)
            p /= total
            value += self._sum_normaliser(total, top, outer).mean()
            mean[:, inner] = p.sum(axis=2) * weight
            for pair, (k, m) in enumerate(zip(first, second, strict=True)):
                products[pair, inner] = np.einsum("rs,rs->r", p[k], p[m]) * weight
        return value, mean, products

    def _grams(self, block, mean, products):
        """Likelihood curvature: one weighted Gram matrix per pair of classes."""
        n_classes, dim = self.n_classes, self.design.dim
        out = np.empty((n_classes, dim, n_classes, dim))
        for pair, (k, m) in enumerate(zip(*np.triu_indices(n_classes), strict=True)):
            if k == m:
                # p - p^2 is positive; its rounding need not be.
                gram = block.gram(np.maximum(mean[k] - products[pair], 0.0))
            else:
                gram = -block.gram(products[pair])
            out[k, :, m] = out[m, :, k] = gram
        return out.reshape(self.dim, self.dim)

    def _add_prior(self, theta, value, gradient, curvature):
        log_prior, score = self.prior.value_and_score(theta, self.scale)
        prior = self.prior.expected(theta.mean(axis=0), theta.var(axis=0), self.scale)
        curvature[np.diag_indices(self.dim)] += prior.curvature
        return value + log_prior.mean(), gradient + score.mean(axis=0), curvature
