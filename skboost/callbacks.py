"""Callbacks for `set_callbacks` of the boosted and SVI estimators."""

from dataclasses import dataclass, field
from numbers import Integral

from skboost.fitting import Checkpoint

__all__ = ["Checkpoint", "ELBOMonitor"]


@dataclass
class ELBOMonitor:
    """Callback that records every iteration of a boosted estimator.

    Register it with ``estimator.set_callbacks(monitor)``. It needs no scorer, and
    works for models without `y`. Records of fits in other processes stay there.

    Parameters
    ----------
    patience : int, default=None
        Ask the fit to stop after that many iterations in a row without a gain of
        `tol` nats; None never asks.
    tol : float, default=1e-3
        Nats.
    records : list, default=[]
        Where the records go; emptied when a fit begins.

    Attributes
    ----------
    records : list of dict
        One per iteration: ``iteration``, ``elbo``, ``elbo_se``, ``gain``,
        ``n_components``, ``seconds`` and what else `history_` of the estimator has.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from skboost import BoostedBayesianLogisticRegression
    >>> from skboost.callbacks import ELBOMonitor
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> monitor = ELBOMonitor()
    >>> _ = BoostedBayesianLogisticRegression().set_callbacks(monitor).fit(X[:, :3], y)
    >>> monitor.records[0]["iteration"]
    1
    """

    patience: int | None = None
    tol: float = 1e-3
    records: list = field(default_factory=list)

    def __post_init__(self):
        whole = isinstance(self.patience, Integral) and self.patience >= 1
        if self.patience is not None and not whole:
            raise ValueError(
                f"patience must be a positive integer or None; got {self.patience!r}."
            )

    def setup(self, estimator, context):
        """Forget the records of an earlier fit."""
        self.records.clear()

    def on_fit_task_begin(self, estimator, context):
        """Nothing to do before an iteration."""

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        """Record an iteration; True asks the fit to stop."""
        if context.task_name != "iteration" or fitted_estimator is None:
            return False
        self.records.append(dict(fitted_estimator.history_[-1]))
        if self.patience is None or len(self.records) < self.patience:
            return False
        # The first iteration of a run has no gain: nan, which is not below `tol`.
        recent = self.records[-self.patience :]
        return all(record["gain"] < self.tol for record in recent)

    def teardown(self, estimator, context):
        """Keep the records after the fit."""
