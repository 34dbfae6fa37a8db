"""Mixtures of a stream of batches: the beginning, and one batch after another."""

import warnings

import numpy as np

from skboost._base import FittingEstimator
from skboost._parallel import single_threaded_blas
from skboost._random import root_seed
from skboost._sklearn import fit_context
from skboost.conjugate import ConjugateTarget, GaussianMixtureModel, coordinate_ascent
from skboost.mixture._fitted import plain_errors
from skboost.mixture._priors import mixture_settings
from skboost.mixture._sources import canonical, checked
from skboost.svi import Stream


class StreamingMixture(FittingEstimator):
    """``partial_fit`` of estimators that hold ``_model`` and ``_stream``."""

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, sample_weight=None):
        """Take one more batch of a stream in; the data so far is not needed again.

        The first batch sets the priors that are left open, and the first clusters: let
        it have more rows than clusters, or set `n_init_samples`, under which rows are
        kept until there are enough to begin with. Batches beyond `batch_size` are cut.
        The rate of a step is at least the batch's share of all rows so far.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            As in `fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As `fit` does, and for a model that has changed since the first batch.

        Warns
        -----
        UserWarning
            If the stream begins with fewer distinct rows than there are clusters.
        """
        with self._keeping_old_fit(), plain_errors(), single_threaded_blas():
            first = "_model" not in vars(self)
            X, weight = checked(self, X, sample_weight, reset=first)
            if not first:
                self._check_goes_on("partial_fit", "Begin with a clone.")
            size = len(X) if self.batch_size is None else self.batch_size
            for begin in range(0, len(X), size):
                part = slice(begin, begin + size)
                if weight[part].any():
                    self._take_in(X[part], weight[part])
            return self

    def _take_in(self, X, weight):
        begins = "_model" not in vars(self) or self._held is not None
        stream = self._begun(X, weight) if begins else self._absorbed(X, weight)
        # A batch run could not be continued from here, nor does its report hold.
        self._forget_run()
        vars(self).update(
            self._parameters(stream.natural),
            _stream=stream,
            elbo_=stream.elbo,
            noise_shrunk_=stream.n_shrunk / max(1, stream.n_groups),
            n_iter_=stream.step,
        )

    def _begun(self, X, weight):
        """The stream after its first rows, those kept from earlier batches included."""
        if "_model" in vars(self):
            X = np.concatenate([self._held[0], X])
            weight = np.concatenate([self._held[1], weight])
        else:
            self._seed = root_seed(self.random_state)
        enough = self.n_init_samples is None or len(X) >= self.n_init_samples
        self._held = None if enough else (X, weight)
        X, weight = canonical(X, weight)
        if enough and len(X) < self.n_components:
            # Past `partial_fit` and the wrapper of it, where the user called.
            warnings.warn(
                f"The stream begins with {len(X)} distinct rows for n_components="
                f"{self.n_components}: they set its priors and its first clusters. "
                "Pass more rows at first, or set n_init_samples.",
                UserWarning,
                stacklevel=5,
            )
        self._settings = mixture_settings(self, X, weight)
        self._model = GaussianMixtureModel(**self._settings)
        rows = self._model.rows(X)
        natural = self._first_clusters(rows, weight)
        evidence = self._model.expect(natural, rows, weight).evidence
        elbo = self._model.elbo(natural, evidence)
        return Stream(natural, float(weight.sum()), 1, elbo=elbo)

    def _first_clusters(self, rows, weight):
        """A start, or of rows that were kept the best end of coordinate ascent."""
        if self.n_init_samples is None:
            return self._start(rows, weight, 0)
        target = ConjugateTarget(self._model, rows, weight)
        ends = [
            coordinate_ascent(
                target, self._start(rows, weight, i), self.max_iter, self.tol
            )
            for i in range(self.n_init)
        ]
        return max(ends, key=lambda end: end.bound).natural

    def _absorbed(self, X, weight):
        # What began with assignments of many rows has nothing that is worth forgetting.
        exact = self.learning_rate == "auto" and self.n_init_samples is not None
        return self._stream.absorb(
            self._model,
            self._model.rows(X),
            weight,
            None if exact else self._rate(whole=False),
            self.effective_batch_size,
            self._seed,
        )

    def _going_on(self, state, engine):
        """After a fit, the stream that further batches go on with."""
        return {"_stream": Stream.after(state, engine.total_weight)}
