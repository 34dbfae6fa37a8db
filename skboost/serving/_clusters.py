"""Clusters of rows from arrays: what mixtures predict with, and exported files too.

As in `_plain`, NumPy and the standard library are all that it needs.
"""

from dataclasses import dataclass, replace

import numpy as np

from skboost._math import log_sum_exp, responsibilities
from skboost._parallel import row_blocks
from skboost.conjugate import Rows
from skboost.serving._plain import checked_rows


@dataclass
class MixtureClusters:
    """Rows under a mixture of distributions of the parameters.

    `parts` are `WeightedDensities`, one for each distribution, with log weights
    `log_alpha`; `assigned` those of the optimal q(z), or None. With `gaps` rows may
    have NaN.
    """

    n_features: int
    center: object
    gaps: bool
    parts: tuple
    log_alpha: object
    assigned: object = None

    def joint(self, rows):
        """``ln p(x_n, z_n = k | data)``, nats (n_rows, n_clusters)."""
        width = len(self.center)
        n_clusters = len(self.parts[0].log_weights)
        joint = np.empty((len(rows), n_clusters))
        for block in row_blocks(len(rows), n_clusters * len(self.parts) + 2 * width):
            some = rows[block]
            logs = [part.log_density(some) for part in self.parts]
            if len(logs) == 1:
                joint[block] = logs[0] + self.log_alpha
                continue
            stacked = np.moveaxis(np.array(logs), 0, -1).reshape(-1, len(self.parts))
            joint[block] = log_sum_exp(stacked, self.log_alpha).reshape(len(some), -1)
        return joint

    def proba(self, rows):
        """Probabilities of the clusters, (n_rows, n_clusters)."""
        if self.assigned is None:
            return responsibilities(self.joint(rows))[0]
        one = replace(self, parts=(self.assigned,), log_alpha=np.zeros(1))
        return responsibilities(one.joint(rows))[0]

    def labels(self, rows):
        """The most probable cluster of each row, by the heaviest distributions."""
        if self.assigned is not None:
            return self.proba(rows).argmax(axis=1)
        heaviest = np.flatnonzero(self.log_alpha == self.log_alpha.max())
        parts = tuple(self.parts[k] for k in heaviest)
        alone = replace(self, parts=parts, log_alpha=self.log_alpha[heaviest])
        return alone.joint(rows).argmax(axis=1)

    # --- rows as users pass them

    def rows(self, X):
        """Rows about the prior mean, checked."""
        return Rows.of(checked_rows(X, self.n_features, gaps=self.gaps), self.center)

    def predict(self, X):
        """The most probable cluster of each row."""
        return self.labels(self.rows(X))

    def predict_proba(self, X):
        """Probabilities of the clusters, (n_samples, n_clusters)."""
        return self.proba(self.rows(X))

    def score_samples(self, X):
        """Log predictive densities of rows, nats."""
        return log_sum_exp(self.joint(self.rows(X)))
