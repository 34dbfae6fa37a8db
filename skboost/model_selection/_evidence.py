"""Choice among models by their evidence lower bounds."""

from copy import deepcopy
from dataclasses import replace
from itertools import product
from numbers import Integral, Real
from time import perf_counter

import numpy as np
from sklearn import get_config
from sklearn.model_selection import ParameterGrid
from sklearn.utils import get_tags, indexable
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    process_routing,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from skboost._sklearn import (
    BaseSearchCV,
    HasMethods,
    Interval,
    StrOptions,
    fit_context,
    search_estimator_has,
)
from skboost.model_selection._candidates import check_comparable, root_of
from skboost.model_selection._fits import (
    Task,
    bound_of_fit,
    fit_candidate,
    report_failures,
    table,
)


class EvidenceSearch(BaseSearchCV):
    """Choose among models by the evidence lower bound, on all of the data.

    Every candidate of a grid is fitted to all rows, `n_repeats` times with independent
    seeds, and the one with the largest ``elbo_`` is chosen. No penalty is added for the
    size of a model, since the ELBO already has one (Chérief-Abdellatif 2018). The
    largest of the repeats counts, because the bound of a model is a supremum;
    `results_` has the mean as well.

    Parameters
    ----------
    estimator : estimator object
        Has ``elbo_`` (nats) after fit, or is a pipeline whose last step has; may have
        ``elbo_se_``, its Monte Carlo standard error, and ``elbo_by_init_``, the bounds
        of its own restarts.
    param_grid : dict or list of dict
        Values to try for each parameter, as in `GridSearchCV`.
    n_repeats : int, default=5
        Fits of every candidate; as many as five-fold cross-validation takes. 1 is
        enough for an estimator that makes restarts itself (``n_init``).
    refit : bool or callable, default=True
        Whether to keep a fitted ``best_estimator_``: the best candidate, once more
        with the seed of its best repeat. A callable gets `results_` and returns the
        row to choose.
    error_score : "raise" or float, default=nan
        ELBO of a fit that fails; NaN leaves it out and comes last where all fits of a
        candidate fail.
    random_state : int, RandomState instance or None, default=None
        Seeds of the repeats. None: the estimator's own `random_state`. The same seed
        gives the same table for every `n_jobs` and a row that does not depend on the
        rest of the grid.
    n_jobs : int, default=None
        Fits at the same time, as in `GridSearchCV`.

    Attributes
    ----------
    results_ : dict of str to array or list of length n_candidates
        For ``pandas.DataFrame(search.results_)``: params, param_*; elbo (largest of the
        repeats), elbo_se and rank_elbo; mean_elbo and std_elbo over repeats;
        repeat0_elbo, repeat0_elbo_se, …; best_repeat, n_restarts; mean_fit_time and
        std_fit_time (seconds). elbo_se joins the Monte Carlo error of the best fit and
        the luck of the starts, by a bootstrap of the largest among all restarts; NaN
        where there is one start and no ``elbo_se_``.
    cv_results_ : dict
        The same table, under the name of `GridSearchCV`.
    best_index_ : int
        Row of the chosen candidate.
    best_params_ : dict
        Its parameters.
    best_elbo_ : float
        Its ELBO, nats.
    best_estimator_ : estimator
        Fitted, where `refit` is not False; predictions and scores are its.
    refit_time_ : float
        Seconds of the last fit.
    classes_, n_features_in_, feature_names_in_ : ndarray, int, ndarray
        Of the best estimator, where it has them.

    See Also
    --------
    sklearn.model_selection.GridSearchCV : Compares by held-out scores; for
        temperatures, class weights and preprocessing, which this search refuses.
    skboost.inspection.EvidenceDisplay : The table as a figure.

    Notes
    -----
    ELBOs stand for log evidences, so they have to be of the same data, and a candidate
    with a looser bound is at a disadvantage. The difference of two bounds bounds
    nothing; it is a log Bayes factor where both are tight.

    References
    ----------
    Chérief-Abdellatif: Consistency of ELBO maximization for model selection, AABI
    2018 (Theorem 1). Chérief-Abdellatif, Alquier: Consistency of variational Bayes
    inference for estimation and model selection in mixtures, 2018.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from skboost import BoostedBayesianLogisticRegression
    >>> from skboost.model_selection import EvidenceSearch
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = EvidenceSearch(
    ...     BoostedBayesianLogisticRegression(max_iter=1),
    ...     {"prior_scale": [0.1, 10.0, 1000.0]},
    ...     n_repeats=1,
    ...     random_state=0,
    ... )
    >>> search.fit(scale(X[:, :4]), y).best_params_
    {'prior_scale': 10.0}
    """

    _parameter_constraints = {
        "estimator": [HasMethods(["fit", "get_params", "set_params"])],
        "param_grid": [dict, list],
        "n_repeats": [Interval(Integral, 1, None, closed="left")],
        "refit": ["boolean", callable],
        "error_score": [StrOptions({"raise"}), Real],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        estimator,
        param_grid,
        *,
        n_repeats=5,
        refit=True,
        error_score=np.nan,
        random_state=None,
        n_jobs=None,
    ):
        self.estimator = estimator
        self.param_grid = param_grid
        self.n_repeats = n_repeats
        self.refit = refit
        self.error_score = error_score
        self.random_state = random_state
        self.n_jobs = n_jobs

    # The estimator is to check its own parameters.
    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y=None, **params):
        """Fit all candidates to all of the data and choose one.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
        **params : dict
            For the estimator's `fit`, such as `sample_weight`; routed where metadata
            routing is enabled.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a grid whose ELBOs are not comparable, or if no fit succeeds.
        TypeError
            For an estimator without ``elbo_``.
        """
        candidates = list(ParameterGrid(self.param_grid))
        if not candidates:
            raise ValueError(
                "param_grid must have at least one candidate; got an empty list. {} is "
                "the estimator as it is."
            )
        check_comparable(self.estimator, candidates)
        X, y = indexable(X, y)
        fit_params = self._routed("fit", params)
        # What callbacks get beside X and y.
        weight = fit_params.get("sample_weight")
        metadata = None if weight is None else {"sample_weight": weight}
        data = {"X": X, "y": y, "metadata": metadata}
        n_fits = len(candidates) * self.n_repeats
        context = self._init_callback_context(
            max_subtasks=n_fits + bool(self.refit), sequential_subtasks=False
        ).call_on_fit_task_begin(estimator=self, **data)
        tasks = self._tasks(candidates, context)
        # Made before anything runs: a context in a worker cannot grow.
        last = context.subcontext("refit", task_id=n_fits) if self.refit else None
        fits = Parallel(n_jobs=self.n_jobs)(
            delayed(bound_of_fit)(task, self, data, fit_params) for task in tasks
        )
        report_failures(fits, self.error_score)
        starts = range(0, n_fits, self.n_repeats)
        results = table(candidates, [fits[k : k + self.n_repeats] for k in starts])
        index = self._chosen(results)
        best = tasks[index * self.n_repeats + results["best_repeat"][index]]
        fitted = self._refit(replace(best, context=last), data, fit_params)
        # A search without `refit` takes these away from an earlier one.
        for name in ("best_estimator_", "refit_time_", "feature_names_in_"):
            vars(self).pop(name, None)
        vars(self).update(fitted)
        self.results_ = results
        self.best_index_ = index
        self.best_params_ = results["params"][index]
        self.best_elbo_ = float(results["elbo"][index])
        context.call_on_fit_task_end(estimator=self, **data)
        return self

    @property
    def cv_results_(self):
        """The table under the name that tools for `GridSearchCV` look for."""
        return self.results_

    def get_metadata_routing(self):
        """Which metadata goes to the estimator.

        Returns
        -------
        MetadataRouter
        """
        mapping = MethodMapping()
        mapping.add(caller="fit", callee="fit").add(caller="score", callee="score")
        return MetadataRouter(owner=self).add(
            estimator=self.estimator, method_mapping=mapping
        )

    def __sklearn_tags__(self):
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        # What `BaseSearchCV` leaves out.
        tags.transformer_tags = deepcopy(inner.transformer_tags)
        tags.target_tags = deepcopy(inner.target_tags)
        tags.input_tags = deepcopy(inner.input_tags)
        return tags

    @available_if(search_estimator_has("score"))
    def score(self, X, y=None, **params):
        """Score of the best estimator, by its own method.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
        **params : dict
            Such as `sample_weight`; routed where metadata routing is enabled.

        Returns
        -------
        float
        """
        check_is_fitted(self)
        return self.best_estimator_.score(X, y, **self._routed("score", params))

    def _routed(self, method, params):
        """What of the metadata the estimator's method gets."""
        if get_config()["enable_metadata_routing"]:
            return process_routing(self, method, **params)["estimator"][method]
        return params

    def _tasks(self, candidates, context):
        """All fits, repeat by repeat within a candidate."""
        root = root_of(self.random_state, self.estimator)
        pairs = product(candidates, range(self.n_repeats))
        return [
            Task(params, repeat, root, context.subcontext("candidate fit", task_id=k))
            for k, (params, repeat) in enumerate(pairs)
        ]

    def _chosen(self, results):
        """Row of the best candidate."""
        if np.isnan(results["elbo"]).all():
            raise ValueError(
                "estimator must have a finite elbo_ for some candidate; got none that "
                "is a number. Look at one fit by itself."
            )
        if not callable(self.refit):
            return int(results["rank_elbo"].argmin())
        index, n = self.refit(results), len(results["params"])
        if not isinstance(index, Integral) or not 0 <= index < n:
            raise ValueError(
                f"refit must return the number of a row, from 0 to {n - 1}; got "
                f"{index!r}."
            )
        return int(index)

    def _refit(self, task, data, fit_params):
        """Attributes of the best estimator, where one is asked for."""
        if not self.refit:
            return {}
        began = perf_counter()
        estimator = fit_candidate(task, self, data, fit_params)
        seconds = perf_counter() - began
        fitted = {"best_estimator_": estimator, "refit_time_": seconds}
        if hasattr(estimator, "feature_names_in_"):
            fitted["feature_names_in_"] = estimator.feature_names_in_
        return fitted
