"""Lines about a fit under way, for ``verbose``: the one place that writes to stdout."""

import sys
from time import perf_counter


class ProgressLines:
    """Lines of run `index` of a mixture, as of scikit-learn's, every `interval`
    iterations."""

    def __init__(self, estimator, index=None, interval=10):
        self._level = int(estimator.verbose)
        self._interval = interval
        self._run = "Boosting" if index is None else f"Initialization {index}"
        self._began = self._last = perf_counter()
        self._write(self._run)

    def iteration(self, n_iter, bound):
        """After an iteration that led to this bound."""
        if n_iter % self._interval:
            return
        now = perf_counter()
        details = f", {now - self._last:.5f} s, bound {bound:.5f} nats"
        self._last = now
        self._write(f"  {self._run}, iteration {n_iter}", details)

    def boosted(self, run):
        """After an iteration of boosting."""
        self.iteration(run.n_iter, run.history[-1].elbo.value)

    def end(self, converged, bound):
        """After the last."""
        how = "converged" if converged else "did not converge"
        seconds = perf_counter() - self._began
        self._write(f"{self._run} {how}", f", {seconds:.5f} s, bound {bound:.5f} nats")

    def _write(self, line, details=""):
        if self._level >= 1:
            # Looked up at the time of writing, so that it can be redirected.
            sys.stdout.write(f"{line}{details if self._level >= 2 else ''}.\n")
