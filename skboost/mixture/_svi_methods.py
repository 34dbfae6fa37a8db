"""Methods of a mixture with one conjugate distribution as posterior, and its stream."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skboost._parallel import single_threaded
from skboost._random import generator, root_seed
from skboost._report import warn_where_called
from skboost._sklearn import fit_context
from skboost.conjugate import ConjugateTarget, GaussianMixtureModel, coordinate_ascent
from skboost.mixture._fitted import (
    ClusterMethods,
    plain_errors,
    precisions_cholesky,
    prior_attributes,
)
from skboost.mixture._priors import mixture_settings, moments
from skboost.mixture._sources import canonical
from skboost.posterior import check_size
from skboost.svi import Stream


class SVIMethods(ClusterMethods):
    """For an estimator that holds ``_model``, ``_settings``, and ``_natural`` of q."""

    def _parameters(self, natural):
        """Fitted attributes that follow from the natural parameters.

        Those of which the prior has no parameter are None.
        """
        model = self._model
        covariances = model.covariances(natural)
        shape = model.clusters.covariance
        factor = natural.get("clusters", {})
        dof = (natural.get("precisions") or factor).get("dof")
        if dof is not None:
            # Spherical precisions count every coordinate of a row.
            dof = dof / shape.degrees(1.0, model.dim)
        concentration = tuple(natural["weights"].values())
        if len(concentration) == 1:
            (concentration,) = concentration
        return {
            "weights_": model.mean_weights(natural),
            "means_": model.means(natural),
            "covariances_": covariances,
            "precisions_": model.clusters.precisions(natural),
            "precisions_cholesky_": precisions_cholesky(shape, covariances),
            "weight_concentration_": concentration,
            "mean_precision_": _per_cluster(factor.get("mean_precision")),
            "degrees_of_freedom_": _per_cluster(dof),
            **prior_attributes(self, self._settings),
            "_natural": natural,
        }

    def predict_proba(self, X):
        """Posterior probabilities of the clusters: the optimal q(z).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN is integrated out.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Rows sum to one.
        """
        check_is_fitted(self)
        rows = self._model.rows(self._validated(X))
        return self._model.responsibilities(self._natural, rows)

    def _predictive(self):
        return self._model, [self._natural], np.zeros(1)

    def _drawn(self, n_samples, seed):
        rng = generator(seed)
        counts = rng.multinomial(n_samples, self.weights_)
        return self._model.sample_rows(self._natural, counts, rng)

    def sample_posterior(self, n_draws=1, random_state=None):
        """Draws of the parameters from the posterior.

        Parameters
        ----------
        n_draws : int, default=1
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        dict
            ``weights`` (n_draws, n_components), ``means`` (n_draws, n_components,
            n_features) and ``precisions`` (n_draws, and the shape of `covariances_`).
            Under the Dirichlet process ``leftover`` (n_draws,), too: the weight of
            all clusters beyond the last, which `weights` leave.

        Raises
        ------
        ValueError
            If `n_draws` is no positive integer.
        """
        check_is_fitted(self)
        check_size("n_draws", n_draws)
        rng = generator(root_seed(random_state))
        return self._model.sample(self._natural, n_draws, rng)

    # --- streams

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
        with self._keeping_old_fit(), plain_errors(), single_threaded():
            first = "_model" not in vars(self)
            X, weight = self._weighted(X, sample_weight, reset=first)
            if not first:
                self._check_goes_on("partial_fit", "Begin with a clone.")
            size = len(X) if self.batch_size is None else self.batch_size
            for begin in range(0, len(X), size):
                part = slice(begin, begin + size)
                if weight[part].any():
                    begins = "_model" not in vars(self) or self._held is not None
                    after = self._begun if begins else self._absorbed
                    self._keep_stream(after(X[part], weight[part]))
            return self

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
            warn_where_called(
                f"The stream begins with {len(X)} distinct rows for n_components="
                f"{self.n_components}: they set its priors and its first clusters. "
                "Pass more rows at first, or set n_init_samples.",
                UserWarning,
            )
        self._settings = mixture_settings(self, *moments(X, weight))
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


def _per_cluster(values):
    """One number for each cluster, where all its features have the same."""
    if np.ndim(values) == 2 and np.array_equal(values, values[:, [0] * len(values[0])]):
        return values[:, 0]
    return values
