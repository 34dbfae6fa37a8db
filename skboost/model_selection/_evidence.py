"""Choice among models by their evidence lower bounds."""

import warnings
from copy import deepcopy

import numpy as np
from scipy.stats import rankdata
from sklearn import get_config
from sklearn.model_selection import GridSearchCV, ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skboost._sklearn import num_samples, param_columns, search_estimator_has
from skboost.fitting import FittingEstimator

# Parameters that raise the likelihood to a power, and the value that does not.
_POWERS = {"temperature": 1.0, "class_weight": None}


def model_of(estimator):
    """The last step of a pipeline; any other estimator itself."""
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator


def check_comparable(estimator, candidates):
    """Refuse grids whose bounds are not of the same data and likelihood."""
    made = [
        _copy(estimator).set_params(**{name: _copy(v) for name, v in params.items()})
        for params in candidates
    ]
    kinds = sorted({_kind(one) for one in made})
    if len(kinds) > 1:
        raise ValueError(
            "param_grid must keep the kind of model: ELBOs of models of different "
            f"data (labels, targets or rows) are not comparable; got {kinds}. Search "
            "each kind on its own."
        )
    _check_powers([model_of(one).get_params(deep=True) for one in made])
    _check_formulas([model_of(one).get_params(deep=False) for one in made])
    _check_data([_preprocessing(one) for one in made], kinds[0])


def prior_of(model):
    """The kind of prior of a fitted model, and whether its scale was learned."""
    kind = getattr(model, "prior_", None)
    return kind and (kind, hasattr(model, "prior_scale_"))


def check_priors(priors, candidates):
    """Refuse fits of different priors where the prior is not what is searched."""
    searched = {name.rpartition("__")[2] for one in candidates for name in one}
    found = sorted({prior for prior in priors if prior})
    if len(found) < 2 or searched & {"prior", "prior_scale", "estimator"}:
        return
    shown = [f"{kind!r}, {'learned' if own else 'fixed'} scale" for kind, own in found]
    raise ValueError(
        "param_grid must keep the prior where it does not search it: an automatic one "
        f"depends on the size of X; got {shown} for "
        f"candidates that differ in {sorted(searched)}. Set prior and prior_scale of "
        "the estimator, such as prior='normal', prior_scale='learn'."
    )


def _kind(estimator):
    """What an estimator is to scikit-learn: classifier, regressor or else."""
    kind = get_tags(estimator).estimator_type
    return kind if kind in {"classifier", "regressor"} else "model of X"


def _check_powers(params):
    """Refuse different powers of the likelihood."""
    for name in sorted(set().union(*params)):
        word = name.rpartition("__")[2]
        values = [own.get(name, _POWERS.get(word)) for own in params]
        if word in _POWERS and not all(_same(values[0], other) for other in values):
            raise ValueError(
                f"param_grid must not vary {name}: it raises the likelihood to a "
                "power, and ELBOs of different powers are not comparable. Where log "
                "likelihoods are negative the smallest always wins, however badly it "
                f"fits; got {values}. Choose it by held-out log density: GridSearchCV "
                "with the score of a density model, scoring='neg_log_loss' for a "
                "classifier."
            )


def _check_formulas(params):
    """Refuse formulas of different responses, and of rows that may be different."""
    formulas = {str(own.get("formula")) for own in params}
    lefts = {text.rpartition("~")[0].strip() for text in formulas}
    dropped = any(own.get("missing") == "drop" for own in params)
    if len(lefts) > 1 or (len(formulas) > 1 and dropped):
        raise ValueError(
            "param_grid must keep the left side of formula and, where formulas differ, "
            "missing='raise': ELBOs of different responses or rows are not comparable; "
            f"got {sorted(formulas)}. Drop rows that lack a value before the search."
        )


def _check_data(steps, kind):
    """Refuse models of different X, and warn of labels that are used twice."""
    differing = [own for own in steps if not _same(own, steps[0])]
    if not differing:
        return
    if kind == "model of X":
        raise ValueError(
            "param_grid must not vary the preprocessing of a model of X: a bound on "
            "the density of other data, or of the same data in other units, is not "
            f"comparable; got {steps[0]} and {differing[0]}. Transform X before the "
            "search, or compare by held-out scores."
        )
    for step in sum([steps[0], *differing], []):
        # Some need y; what selects features may use it.
        if hasattr(step, "get_support") or (
            _has_params(step) and get_tags(step).target_tags.required
        ):
            warnings.warn(
                f"{type(step).__name__} may look at y, and the preprocessing differs "
                "between candidates. Labels that choose the features and are modelled "
                "as well count twice: the ELBO is too high, most where most is chosen "
                "from. Compare by held-out scores.",
                stacklevel=6,
            )
            return


def _preprocessing(estimator):
    """The steps before the last one; pipelines may end in pipelines."""
    if not isinstance(estimator, Pipeline):
        return []
    *early, (_, model) = estimator.steps
    return [step for _, step in early] + _preprocessing(model)


def _copy(value):
    """A copy that `set_params` may change; what is no estimator stays the same."""
    if type(value) in (list, tuple):
        return type(value)(map(_copy, value))
    if not _has_params(value):
        return value
    params = value.get_params(deep=False)
    return type(value)(**{name: _copy(own) for name, own in params.items()})


def _same(a, b):
    """Equality of two parameters, of estimators by their own parameters."""
    if _has_params(a) and type(a) is type(b):
        a, b = (list(one.get_params(deep=False).items()) for one in (a, b))
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return a is b or np.array_equal(a, b)


def _has_params(value):
    """Whether a value is an estimator."""
    return hasattr(value, "get_params") and not isinstance(value, type)


# --- the search


class _AllRows:
    """The only split of the data: all rows for the fit, and none to be held out."""

    def split(self, X, y=None, groups=None):
        rows = np.arange(num_samples(X))
        yield rows, rows[:0]

    def get_n_splits(self, X=None, y=None, groups=None):
        return 1


class _Bound(float):
    """The bound of a fit as its score, with the standard error and the prior beside."""

    se, prior = np.nan, None


class EvidenceSearch(FittingEstimator, GridSearchCV):
    """Choose among models by the evidence lower bound, on all of the data.

    Every candidate of a grid is fitted to all rows, and the one with the largest
    ``elbo_`` is chosen. No penalty is added for the size of a model, since the ELBO
    already has one (Chérief-Abdellatif 2018).

    Parameters
    ----------
    estimator : estimator object
        Has ``elbo_`` (nats) after fit, or is a pipeline whose last step has; may have
        ``elbo_se_``, its Monte Carlo standard error, and ``elbo_by_init_``, the bounds
        of its restarts, of which the largest is ``elbo_``.
    param_grid : dict or list of dict
        Values to try for each parameter, as in `GridSearchCV`. One of them may be
        ``random_state``: each fit has a valid bound, and the largest is the tightest.
    refit : bool or callable, default=True
        Whether to keep a fitted ``best_estimator_``, for which the best candidate is
        fitted once more: with an integer ``random_state`` of the estimator to the same
        bound. A callable gets `cv_results_` and returns the row to choose.
    error_score : "raise" or float, default=nan
        ELBO of a fit that fails; NaN comes last.
    n_jobs : int, default=None
        Fits at the same time, as in `GridSearchCV`.

    Attributes
    ----------
    cv_results_ : dict of str to array or list of length n_candidates
        For ``pandas.DataFrame(search.cv_results_)``: params, param_*, elbo, elbo_se,
        rank_elbo and fit_time (seconds); mean_test_score and rank_test_score are elbo
        and rank_elbo by the names of `GridSearchCV`. elbo_se joins the Monte Carlo
        error and the luck of the restarts, by a bootstrap of the largest among them;
        NaN where there is one start and no ``elbo_se_``.
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
    ...     BoostedBayesianLogisticRegression(max_iter=1, random_state=0),
    ...     {"prior_scale": [0.1, 10.0, 1000.0]},
    ... )
    >>> search.fit(scale(X[:, :4]), y).best_params_
    {'prior_scale': 10.0}
    """

    _parameter_constraints = GridSearchCV._parameter_constraints | {
        "refit": ["boolean", callable]
    }
    _elsewhere = {"random_state": "Set that of the estimator."}
    _instead_of_checkpoint = (
        "Fit one candidate at a time, each with a Checkpoint of its own."
    )

    def __init__(
        self, estimator, param_grid, *, refit=True, error_score=np.nan, n_jobs=None
    ):
        super().__init__(
            estimator,
            param_grid,
            scoring=_bound,
            cv=_AllRows(),
            refit=refit,
            error_score=error_score,
            n_jobs=n_jobs,
        )

    @property
    def best_elbo_(self):
        """The largest bound, nats."""
        return float(self.cv_results_["elbo"][self.best_index_])

    def oracle_bound(self, n_samples, rate):
        """What choosing may cost where one of the candidates is true: a bound.

        ``((1 + a) rate + ln(K) / n) / (1 - a)`` with the temperature a and K candidates
        bounds the Rényi divergence of order a from the truth, expected over data and
        under the tempered posterior of the candidate with the largest ELBO
        (Chérief-Abdellatif 2018). It holds for exact ELBOs of independent rows.

        Parameters
        ----------
        n_samples : int
            Rows of the fit, n.
        rate : float
            Of the true candidate, in nats for each row: some distribution of its family
            has at most this expected KL from the truth, and at most n times this KL
            from the prior.

        Returns
        -------
        float
            Nats for each row; infinity at a temperature of 1, of which the theorem says
            nothing.
        """
        check_is_fitted(self)
        own = model_of(self.estimator).get_params(deep=False)
        given = {k.rpartition("__")[2]: v for k, v in self.best_params_.items()}
        power = float((own | given).get("temperature", 1.0))
        if power >= 1.0:
            return np.inf
        n_candidates = len(self.cv_results_["params"])
        price = (1.0 + power) * rate + np.log(n_candidates) / n_samples
        return float(price / (1.0 - power))

    def get_metadata_routing(self):
        """Which metadata goes to the estimator, a `MetadataRouter`."""
        mapping = MethodMapping()
        mapping.add(caller="fit", callee="fit").add(caller="score", callee="score")
        router = super().get_metadata_routing()
        return router.add(estimator=self.estimator, method_mapping=mapping)

    def __sklearn_tags__(self):
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        # What `GridSearchCV` leaves out.
        tags.transformer_tags = deepcopy(inner.transformer_tags)
        tags.input_tags = deepcopy(inner.input_tags)
        return tags

    @available_if(search_estimator_has("score"))
    def score(self, X, y=None, **params):
        """Score of the best estimator, a float, by its own method.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
        **params : dict
            Such as `sample_weight`; routed where metadata routing is enabled.
        """
        check_is_fitted(self)
        if get_config()["enable_metadata_routing"]:
            params = process_routing(self, "score", **params).estimator.score
        return self.best_estimator_.score(X, y, **params)

    def _run_search(self, evaluate_candidates, *, callback_ctx=None):
        candidates = list(ParameterGrid(self.param_grid))
        if not candidates:
            raise ValueError(
                "param_grid must have at least one candidate; got an empty list. {} is "
                "the estimator as it is."
            )
        check_comparable(self.estimator, candidates)
        super()._run_search(evaluate_candidates, callback_ctx=callback_ctx)
        # Of an earlier fit, which is not to stand beside this table.
        vars(self).pop("best_estimator_", None)

    def _format_results(self, candidate_params, n_splits, out, more_results=None):
        """The table of all fits."""
        bounds = [fit["test_scores"] for fit in out]
        check_priors([getattr(b, "prior", None) for b in bounds], candidate_params)
        elbo = np.array(bounds, dtype=float)
        known = ~np.isnan(elbo)
        if not known.any():
            raise ValueError(
                "estimator must have elbo_, an evidence lower bound in nats, after a "
                f"fit; {type(model_of(self.estimator)).__name__} has no finite one for "
                "any candidate. GridSearchCV compares by held-out scores."
            )
        # 1 is the largest; what is no number comes last, after minus infinity.
        rank = np.full(len(elbo), 1 + known.sum(), dtype=np.int32)
        rank[known] = rankdata(-elbo[known], method="min")
        return {
            "fit_time": np.array([fit["fit_time"] for fit in out]),
            **dict(param_columns(candidate_params)),
            "params": candidate_params,
            "elbo": elbo,
            "elbo_se": np.array([getattr(b, "se", np.nan) for b in bounds]),
            "rank_elbo": rank,
            # By which `GridSearchCV` chooses.
            "mean_test_score": elbo,
            "rank_test_score": rank,
        }


def _bound(estimator, X, y=None, sample_weight=None):
    """The `_Bound` of a fitted estimator, or of the last step of a pipeline."""
    model = model_of(estimator)
    elbo = getattr(model, "elbo_", np.nan)
    # An infinite evidence is a defect of the model and would always win.
    bound = _Bound(np.nan if elbo == np.inf else elbo)
    luck = _spread_of_largest(getattr(model, "elbo_by_init_", [elbo]))
    errors = np.array([getattr(model, "elbo_se_", np.nan), luck])
    bound.prior = prior_of(model)
    if not np.isnan(errors).all():
        bound.se = np.sqrt(np.nansum(errors**2))
    return bound


def _spread_of_largest(values):
    """Standard deviation of the largest of m draws with replacement from m values.

    The bootstrap in closed form: the i-th smallest is the largest draw with probability
    (i/m)^m − ((i−1)/m)^m. Restarts end in a few optima, and such atoms make it sound.
    """
    values = np.sort(values)
    m = len(values)
    p = np.diff((np.arange(m + 1) / m) ** m)
    return np.sqrt(p @ (values - p @ values) ** 2) if m > 1 else np.nan
