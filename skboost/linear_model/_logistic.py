"""Bayesian logistic regression with a boosted mixture as posterior."""

from copy import copy
from dataclasses import replace

from skboost._parameters import keeps_parameters
from skboost._sklearn import StrOptions, fit_context
from skboost.linear_model._class_model import (
    PRIOR_OF_CLASSES,
    ClassModel,
    prior_of_classes,
)
from skboost.linear_model._classifier import BayesianClassifier, staged_predict_proba
from skboost.linear_model._flat import FlatRegression
from skboost.linear_model._model import SCALED_CONSTRAINTS, Layout, feature_names
from skboost.linear_model._row_keywords import binomial_rows, score_of_trials
from skboost.linear_model._sources import Labels
from skboost.linear_model._summary import has_offsets
from skboost.targets import Logistic, Multinomial


class BoostedBayesianLogisticRegression(BayesianClassifier, FlatRegression):
    """Logistic regression with a posterior in place of a point.

    Boosting variational inference begins with one Gaussian. It adds one by expectation
    propagation for every scale of the prior, or without room searched ones where more
    than `tol` remains; predictions average over the mixture. With two classes and
    Gaussian components every expectation is a one-dimensional integral.

    Parameters
    ----------
    prior : {"auto", "principal", "normal", "laplace", "student_t", "cauchy", \
            "horseshoe"}, Prior or dict, default="auto"
        Of the coefficients: independent ones, or ``"principal"``, the average of three
        normal priors whose variances along principal components are in proportion to
        those of the standardised columns to the power 0, 1/2 or 1. ``"auto"`` takes it
        wherever ``prior_scale="auto"`` would learn the scale and it is learned; of two
        classes where they have at most 300 parameters, since components of more have no
        correlations. Else it is ``"normal"``. A dict: see
        `BoostedBayesianLinearRegression`.
    prior_scale : "auto", "learn", float, array-like of shape (n_features,) or \
            ScalePrior, default="auto"
        Scale of the prior, one or per feature; multiplies the own scale of a `Prior`
        object. ``"learn"`` averages over one scale that all coefficients have in
        common, whose prior is ``HalfTPrior(df=3, scale=1.5)`` or the `ScalePrior`
        given; its unit is one per standard deviation of the feature. ``"auto"`` learns
        the scale; it is 1.0 for a `Prior` object that has another one, where rows
        outweigh any prior (:doc:`/user_guide/prior_scale` has the
        bounds), and for more than two classes whose prior is not normal. Only the shape
        of the rows decides, not the family or the objective. `partial_fit` learns a
        scale in the first call, whose posterior is the prior of the next.
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    intercept_scale : float, default=10.0
        Of the prior, of the same kind, that the intercept has at the centre of the
        columns, their (weighted) means; see `BoostedBayesianLinearRegression`.
    class_weight : dict or "balanced", default=None
        As in scikit-learn; it multiplies `sample_weight`.
    formula, missing
        As in `BoostedBayesianLinearRegression`.
    temperature : float, default=1.0
        Power of the likelihood in (0, 1]; below 1 the posterior is tempered
        (Alquier and Ridgway 2020), 1 is Bayes.
    sharpen : bool or "auto", default="auto"
        Whether probabilities suit the rows of the fit, each predicted by the others.
        True: of two classes those of the posterior to a power, `sharpening_`; of more
        those of modes at seven scales of one normal prior, stacked (Yao et al. 2018,
        equation 4). ``"auto"``: the latter where `prior` and `prior_scale` are "auto"
        and rows x columns x classes x (d + 400) + d^3 at most 3e9, for d coefficients,
        as many as rows in each class at most. Else, for False and in `partial_fit`,
        averages over the posterior, which are better where classes overlap much. All
        other answers are the posterior's in any case. Stacked modes use no mixture:
        `step_size`, `corrective` and their like change averages alone.
    max_iter : int or "auto", default="auto"
        Boosting iterations in total, the first component included: 1 is one Gaussian.
        Nodes, such as components for 4 to 21 scales of the prior, come in one by one,
        the heaviest first; "auto" has them all, counts them as one, and allows ten.
    tol : float or "auto", default="auto"
        In nats. A component that gains less than a tenth of it is refused. ``"auto"``
        is 0.01, and also stops once all nodes are in, or no more remains, with orbits,
        than a Gaussian fitted to 1,000 exact draws leaves, or the next component likely
        gains a tenth of that. A number goes on until it is gained no more, 0 always.
    max_time : float, default=None
        Seconds of the posterior, also within an iteration: the one under way is given
        up. The first one is cut short where it must be: nodes that are fitted by then
        make the mixture, as ``message_`` says.
    warm_start : bool, default=False
        Go on with the last run up to `max_iter` iterations in total, on the same data,
        as one long run would have. A pickle can go on only where this is True.
    random_state : int, RandomState instance or None, default=None
        Seed of every draw. The same seed gives the same fit for every `n_jobs`.
    n_jobs : int, default=None
        Threads over blocks of rows and over starts.
    verbose : int, default=0
        1 shows every iteration, 2 in detail, by `logging`, and `rich` draws a bar.
    family : str or VariationalFamily, default="gaussian"
        Family of the mixture's components, and their covariance: ``"gaussian"`` (full
        up to 300 parameters, low rank above), ``"gaussian-full"``, ``"gaussian-diag"``,
        ``"gaussian-low-rank"``, ``"laplace"`` (diagonal), ``"student_t"`` (5 degrees of
        freedom; full up to 300 parameters, diagonal above) or an object such as
        ``Gaussian("low_rank", rank=5)``; ``StudentT(df="auto")`` lets every component
        choose its degrees of freedom. Other families than Gaussian take ten times the
        seconds and more, and so do diagonal ones with a number as `prior_scale`;
        :doc:`/user_guide/which` has what every option costs.
    objective : {"kl", "relbo", "hellinger"} or Objective, default="kl"
        What a new component maximises: the joint gain in ELBO, the residual ELBO of
        Locatello et al. 2018 (parameters: `skboost.strategies.ResidualGain`), or the
        overlap of square roots of Campbell and Li 2019 (not of Student-t components),
        where `tol` is squared Hellinger distance and ten iterations make 55 components.
    step_size : {"line-search", "adaptive", "predefined"}, float or StepSize, \
            default="line-search"
        Weight of a new component; under ``"fully-corrective"`` where weights begin.
        Rules that do not weigh nodes by evidence return to them until no more than
        `tol` (.01 for "auto") is lacking, forty times each at most.
    corrective : {"fully-corrective", "pairwise", "away", "none"}, \
            default="fully-corrective"
        How the weights of old components move; the default weighs nodes by evidence.
    search : {"greedy"}, GreedySearch or StochasticSearch, default="greedy"
        How components are searched, when that ends and how many there may be:
        `skboost.strategies.GreedySearch` has its settings, and
        `skboost.strategies.StochasticSearch` is there for reproducing the papers.
    orbit : "auto", int or None, default="auto"
        Images of a point over which every component is reweighted after boosting; what
        remains falls as their number doubles. A power of two, up to 1,024; ``"auto"``
        doubles it, up to 64, until less than 0.01 nats remain, or `tol` where that is a
        number. A draw, and a value of the density, then cost so many evaluations.
        Declined where it gains less than a tenth of `tol`. It moves ``posterior_`` and
        the ends of `predict_proba_interval`; other predictions are those of the mixture
        before, which are as near. None leaves a mixture. See
        :doc:`/user_guide/orbits`.

    Attributes
    ----------
    posterior_ : MixturePosterior
        Over (coefficients, intercept); over classes x (coefficients, intercept) with
        more than two classes.
    classes_ : ndarray of shape (n_classes,)
        Labels.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Posterior means before orbits.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Posterior means.
    prior_ : str
        The kind of prior that ``prior="auto"`` led to, such as "principal".
    sharpening_ : float
        Power of the probabilities, 1.0 but for two classes with ``sharpen=True``.
    prior_scale_ : float
        Posterior mean of the factor that ``prior_scale="learn"`` averages over; see
        `prior_scale_interval`. Not there for a scale that is given.
    elbo_, elbo_se_ : float
        Evidence lower bound from fresh draws and its standard error, nats. After
        `partial_fit` it is that of the last batch, with the posterior before as its
        prior: bounds of all batches add up to one on the evidence of all rows, as far
        as posteriors in between were exact. See `make_log_joint`.
    elbo_path_, gain_path_, duality_gap_path_ : ndarray of shape (`n_iter_`,)
        Per iteration, from fresh draws, nats.
    duality_gap_, duality_gap_se_ : float
        Largest over the last proposed component and all that the mixture has, nats; a
        bound under ``ResidualGain(early_stopping=False)`` only.
    remaining_kl_, remaining_kl_se_, pareto_k_ : float
        Importance-sampling estimate of what the ELBO still misses, nats, its standard
        error, and k-hat, the shape of the weights' tail: above 0.7 the estimate is not
        reliable. Blind to what the mixture never reaches.
    remaining_kl_interval_ : tuple of float
        (low, high) estimate of the remaining error, in nats. What short chains from
        the posterior do not reach is not in it; `high` is inf where nothing is known.
    orbiting_ : OrbitReport or None
        What orbits gained; None without `orbit`.
    n_iter_ : int
        Iterations done.
    converged_ : bool
        A stopping rule ended the run, and ten times what `tol` allows remains at most.
    message_ : str
        Why the run ended.
    history_ : list of dict
        One record per iteration: ``kind`` of step ("first", "frank-wolfe", "away",
        "pairwise", "split", "widths", "rejected"), gamma, curvature, components, ELBO.
        Over nodes gains and gaps are exact, with the node as a coordinate.
    n_dropped_ : int
        Rows that `fit` left out under ``missing="drop"``.
    n_features_in_, feature_names_in_ : int, ndarray of shape (`n_features_in_`,)
        As in scikit-learn.

    See Also
    --------
    skboost.boost_posterior : The same engine for any log density.

    Notes
    -----
    What needs more evaluations of the log joint is computed when first asked for, once
    and the same for the same seed: ``posterior_``, ``elbo_``, ``remaining_kl_``,
    ``message_``. Predictions need none, nor does ``coef_`` where predictions average.
    Until then a fitted estimator holds its rows; a pickle or a copy computes it first.
    Of rows changed in place a warning says what is left out, or an error that there is
    no posterior. Callbacks and `warm_start` have it at once.

    References
    ----------
    Locatello et al.: Boosting Black Box Variational Inference, 2018 (Algorithm 1).
    Dresdner et al.: Boosting Variational Inference With Locally Adaptive Step-Sizes,
    2021 (Algorithms 1, 2).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from skboost import BoostedBayesianLogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BoostedBayesianLogisticRegression(random_state=0)
    >>> model.fit(scale(X[:, :4]), y).predict_proba(scale(X[:, :4])).shape
    (569, 2)
    """

    _parameter_constraints = {
        **SCALED_CONSTRAINTS,
        "prior": PRIOR_OF_CLASSES,
        "intercept_scale": SCALED_CONSTRAINTS["intercept_scale"][1:],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "sharpen": ["boolean", StrOptions({"auto"})],
    }

    @keeps_parameters
    def __init__(
        self,
        *,
        prior="auto",
        prior_scale="auto",
        fit_intercept=True,
        intercept_scale=10.0,
        class_weight=None,
        formula=None,
        missing="raise",
        temperature=1.0,
        sharpen="auto",
        max_iter="auto",
        tol="auto",
        max_time=None,
        warm_start=False,
        random_state=None,
        n_jobs=None,
        verbose=0,
        family="gaussian",
        objective="kl",
        step_size="line-search",
        corrective="fully-corrective",
        search="greedy",
        orbit="auto",
    ):
        pass

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None, trials=None, offset=None):
        """Fit the posterior. Returns self.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or RowBlocks
            `skboost.RowBlocks` and large memory maps are not copied as a whole.
        y : array-like of shape (n_samples,), default=None
            Labels of at least two classes; None for `RowBlocks`, which have them.
        sample_weight : array-like of shape (n_samples,) or str, default=None
            Non-negative; a weight of two is a row that stands twice. A str, here and
            below, is the name of a column where X is a data frame: a feature only where
            the formula or parameters such as a dict of priors name it, too.
        trials : int, array-like of shape (n_samples,) or str, default=None
            Of binomial counts: how often each row was tried. `y` is then the number of
            successes among them, and the classes are 0 and 1.
        offset : array-like of shape (n_samples,) or str, default=None
            Of two classes: what is known of the logit of the second one's probability,
            such as a prediction by another model.

        Raises
        ------
        ValueError
            For data or combinations of parameters that mean nothing. What was fitted
            before stays usable.
        KeyboardInterrupt
            Once more, after the iterations done were kept with every fitted attribute.

        Warns
        -----
        ConvergenceWarning
            Where more than half a nat of KL remains, once there is a posterior.
        DegenerateComponentWarning
            Where ``objective="relbo"`` proposes what gains nothing, at its bounds.
        """
        of_rows = {"sample_weight": sample_weight, "trials": trials, "offset": offset}
        return self._fit_rows(X, y, **of_rows)

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X, y, classes=None, sample_weight=None, trials=None, offset=None
    ):
        """Update the posterior by more data: that so far is the prior. Returns self.

        Parameters
        ----------
        X, y, sample_weight, trials, offset
            As in `fit`, rows in memory.
        classes : array-like of shape (n_classes,), default=None
            All labels that will ever come; needed at the first call unless `y` has
            them all.

        Raises
        ------
        ValueError
            If `y` has a label that is not among the classes, or for ``sharpen=True``.
        """
        if self.sharpen not in ("auto", False):
            raise ValueError(
                "sharpen must be 'auto' or False for partial_fit: what it chooses is "
                "chosen by all rows at once; got True. Set sharpen=False, or call fit."
            )
        of_rows = {"sample_weight": sample_weight, "trials": trials, "offset": offset}
        return self._fit_rows(X, y, True, classes, **of_rows)

    staged_predict_proba = staged_predict_proba
    score = score_of_trials

    def _reader(self, before, named=None):
        classes = None if before is None else before.classes
        return Labels(self.n_jobs, self.class_weight, named, classes)

    def _reader_again(self):
        return replace(super()._reader_again(), class_weight=self._model_.class_weight)

    def _arranged(self, reader, before, X, y, sample_weight, trials, offset):
        return binomial_rows(X, y, trials, sample_weight, offset)

    def _model(self, rows, reader):
        """The model of these parameters for some rows."""
        classes = reader.classes
        outputs = tuple(classes) if (several := len(classes) > 2) else ()
        layout = Layout(feature_names(self), self._said.fit_intercept, outputs)
        exposed = has_offsets(rows)
        if several and exposed:
            raise ValueError(
                f"offset must be None for more than two classes; got {len(classes)}."
            )
        priors = prior_of_classes(self, rows, layout, len(classes))
        return ClassModel(
            layout=layout,
            likelihood=Multinomial(len(classes)) if several else Logistic(),
            **priors,
            temperature=self.temperature,
            classes=classes,
            class_weight=copy(self.class_weight),
            exposed=exposed,
        )

    def _learn_model(self, model, rows, data, again):
        model = model if again else model.sharpened(rows, self)
        return super()._learn_model(model, rows, data, again)
