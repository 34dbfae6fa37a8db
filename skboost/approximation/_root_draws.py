"""Draws kept for the coefficients of a combination of roots, and what they show.

Every draw of every component serves every inner product, by the balance heuristic:
the noise of one iteration does not live on in the coefficients.
"""

from dataclasses import dataclass, replace

import numpy as np

from skboost._math import log_sum_exp


@dataclass(frozen=True)
class RootDraws:
    """Pooled draws of the components behind some roots.

    Parameters
    ----------
    theta : ndarray of shape (n, dim)
    log_joint : ndarray of shape (n,)
        Of the target, nats.
    log_components : ndarray of shape (n, K)
        Log density of every component at every draw, nats.
    log_proposals : ndarray of shape (n, K)
        Log density of what was drawn for every component, at every draw.
    source : ndarray of int of shape (n,)
    """

    theta: np.ndarray
    log_joint: np.ndarray
    log_components: np.ndarray
    log_proposals: np.ndarray
    source: np.ndarray

    def join(self, other, here, there):
        """This pool and that of one further root.

        Parameters
        ----------
        other : RootDraws
        here, there : tuple of ndarray
            Log densities and log proposals of the other's component at these draws
            (n, 1), and of these components at the other's draws (m, K).
        """
        columns = [
            np.block([[own, across], [back, others]])
            for own, across, back, others in (
                (self.log_components, here[0], there[0], other.log_components),
                (self.log_proposals, here[1], there[1], other.log_proposals),
            )
        ]
        return RootDraws(
            np.concatenate([self.theta, other.theta]),
            np.concatenate([self.log_joint, other.log_joint]),
            *columns,
            np.concatenate([self.source, other.source + self.log_components.shape[1]]),
        )

    def keep(self, mask):
        """The pool of the roots where `mask` is True."""
        rows = mask[self.source]
        return replace(
            self,
            theta=self.theta[rows],
            log_joint=self.log_joint[rows],
            log_components=self.log_components[np.ix_(rows, mask)],
            log_proposals=self.log_proposals[np.ix_(rows, mask)],
            source=(np.cumsum(mask) - 1)[self.source[rows]],
        )

    @property
    def log_pool(self):
        """Log density of the pool itself at its draws."""
        counts = np.bincount(self.source, minlength=self.log_proposals.shape[1])
        return log_sum_exp(self.log_proposals, np.log(counts / counts.sum()))

    def log_overlap(self, roots):
        """``ln <sqrt(p), roots>``, p unnormalised, nats."""
        logs = 0.5 * self.log_joint + roots.log_root(self.theta) - self.log_pool
        return float(log_sum_exp(logs[None])[0] - np.log(len(logs)))

    def overlaps(self, control):
        """``<f, sqrt(s_k)>`` for every component (K,); see `RootControl`."""
        residual = control.residual(self.theta, self.log_joint)
        weights = np.exp(0.5 * self.log_components - self.log_pool[:, None])
        exact = control.roots.gram @ control.roots.coefficients
        return exact + residual @ weights / len(residual)
