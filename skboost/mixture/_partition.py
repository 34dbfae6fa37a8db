"""One partition of rows that stands for a posterior over partitions."""

import numpy as np
from scipy.special import xlogy
from sklearn.utils.validation import check_is_fitted

from skboost._parallel import row_blocks
from skboost._random import REPORT, generator
from skboost.conjugate import log_parts
from skboost.mixture._rows import read_rows

# Nats, summed over rows, that a move has to gain: less is rounding.
_LEAST_GAIN = 1e-9


class PointPartition:
    """Mixin of mixtures with draws of the parameters: a point estimate of groups."""

    def partition(self, X, n_draws=256):
        """The partition of rows that is nearest to draws of it on average.

        Distance is the variation of information, a metric of partitions that needs no
        labels. Draws of partitions are assignments of the rows, drawn given draws of
        the parameters. The search moves one row at a time, also into a group of its
        own, from the groups of each explanation until no move lowers the expected
        distance: a local optimum, the best of these.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        n_draws : int, default=256
            Draws of partitions.

        Returns
        -------
        ndarray of int of shape (n_samples,)
            Labels from 0 on, which need not be those of `predict`; their number may
            differ from `n_components_`.

        Raises
        ------
        ValueError
            Under ``posterior="variational"``, whose draws are too much alike.

        References
        ----------
        Wade, Ghahramani: Bayesian Cluster Analysis: Point Estimation and Credible
        Balls, Bayesian Analysis 13, 2018 (variation of information, greedy search).
        """
        check_is_fitted(self)
        if self.posterior != "gibbs":
            raise ValueError(
                "partition needs posterior='gibbs'; "
                f"got posterior={self.posterior!r}. Set it before fit."
            )
        X = read_rows(self, X)
        drawn = _drawn_partitions(self.posterior_, X, n_draws, self._fit.seed)
        starts = [predictive.labels(X) for _, predictive in self._explanations]
        found = [_descended(start, drawn) for start in starts]
        labels, _ = min(found, key=lambda pair: pair[1])
        return np.unique(labels, return_inverse=True)[1]


def _drawn_partitions(posterior, X, n_draws, seed):
    """Clusters of rows given draws of the parameters, (n_rows, n_draws)."""
    rng, model = generator(seed, REPORT, 0, 2), posterior.model
    draws, rows = posterior.sample(n_draws, seed), model.rows(X)
    labels = np.empty((len(rows), n_draws), dtype=int)
    for block in row_blocks(len(rows), n_draws * model.n_components):
        joint = log_parts(model, draws, rows[block])
        # The largest of log probabilities with Gumbel noise is a draw.
        labels[block] = (joint + rng.gumbel(size=joint.shape)).argmax(axis=-1)
    return labels


def _descended(labels, drawn):
    """Labels after moves of single rows, and their expected variation of
    information."""
    labels, (n_rows, n_draws) = labels.copy(), drawn.shape
    every, n_drawn = np.arange(n_draws), drawn.max() + 1
    # Groups beyond those of the start are empty, for rows that leave theirs.
    n_groups = min(n_rows, labels.max() + 1 + n_drawn)
    n_groups = max(n_groups, labels.max() + 1)
    counts = np.zeros((n_groups, n_draws, n_drawn))
    for row, label in enumerate(labels):
        counts[label, every, drawn[row]] += 1.0
    moved = True
    while moved:
        moved = False
        for row in range(n_rows):
            old = labels[row]
            counts[old, every, drawn[row]] -= 1.0
            shared, sizes = counts[:, every, drawn[row]], counts[:, 0].sum(axis=1)
            cost = _rise(sizes) - 2.0 * _rise(shared).mean(axis=1)
            new = int(cost.argmin())
            if cost[new] > cost[old] - _LEAST_GAIN:
                new = old
            labels[row], moved = new, moved or new != old
            counts[new, every, drawn[row]] += 1.0
    sizes = counts[:, 0].sum(axis=1)
    overlap = xlogy(counts, counts).sum() / n_draws
    return labels, xlogy(sizes, sizes).sum() - 2.0 * overlap


def _rise(n):
    """By how much n ln n grows with one row more."""
    return xlogy(n + 1.0, n + 1.0) - xlogy(n, n)
