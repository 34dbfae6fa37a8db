"""Answers about rows from draws: new responses, residuals, leave-one-out, ArviZ.

Every function takes the fitted model first: a regression or classifier of
``skboost.linear_model``, or a pipeline that ends with one, whose rows come as the
pipeline takes them.
"""

import warnings
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri
from sklearn.base import clone

from skboost._math import log_sum_exp
from skboost._sklearn import num_samples, rows_of
from skboost.approximation import psis
from skboost.fitting import warn_where_called
from skboost.inspection._asked import BY_ROW, Asked, last_step
from skboost.posterior import arviz_groups, check_size
from skboost.targets import OverdispersionWarning

# Shape of the tail of weights above which a row is left out by another fit.
_HEAVY = 0.7


def sample_predictive(model, X, n=1000, *, random_state=None, **keywords):
    """Draws of new responses of rows from the posterior predictive distribution.

    Rows of one draw share its parameters, so that sums and differences of rows have
    their own uncertainty. Means and quantiles of many draws are those of `predict`,
    `predict_proba` and `predict_quantiles`.

    Parameters
    ----------
    model : estimator
        Fitted.
    X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
    n : int, default=1000
        Draws. Models with groups keep 1,024 draws of the posterior, or fewer, which
        come again where more are asked for.
    random_state : int, RandomState instance or None, default=None
    **keywords
        What predictions take beside rows, as in `predict`: ``offset``, ``exposure``,
        ``population``, ``groups``; and ``trials``, whose successes are drawn.

    Returns
    -------
    ndarray of shape (n, n_samples)
        Numbers, counts, or labels of classes.

    Raises
    ------
    TypeError, ValueError
        Where `model` is of another kind, and for keywords that it does not have.

    Notes
    -----
    Rows of groups that the fit has not seen share the effects of one new group in each
    draw. Of two classes draws with ``sharpen=True`` have its sharpened probabilities;
    of more they are the posterior's.

    References
    ----------
    Gelman et al.: Bayesian Data Analysis, 3rd edition, 2013, section 6.3.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skboost import BoostedBayesianLinearRegression
    >>> from skboost.inspection import sample_predictive
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BoostedBayesianLinearRegression(random_state=0).fit(X, y)
    >>> sample_predictive(model, X[:5], n=200, random_state=0).shape
    (200, 5)
    """
    asked = Asked(model, n, random_state, keywords, reported=False)
    return drawn_responses(asked, X, n)


def drawn_responses(asked, X, n):
    """`sample_predictive` of `Asked`."""
    out, classes = None, asked.classes
    for rows, responses in asked.responses(X):
        drawn = responses.sample(asked.rng)
        drawn = drawn if classes is None else classes[drawn]
        if out is None:
            out = np.empty((n, num_samples(X)), dtype=drawn.dtype)
        out[:, rows] = drawn.T
    return out


def quantile_residuals(model, X, y, *, n=1000, random_state=0, **keywords):
    """Randomised quantile residuals: standard normal where the model holds.

    The predictive distribution function at the response, averaged over draws, as a
    normal quantile; where responses are counts or classes, at a uniform point of the
    step of their probability.

    Parameters
    ----------
    model, X
        As in `sample_predictive`.
    y : array-like of shape (n_samples,)
        Responses; with ``trials`` numbers of successes. Classes have the order of
        ``classes_``, and ordered ones that of ``categories_``.
    n : int, default=1000
        Draws of the posterior.
    random_state : int, RandomState instance or None, default=0
    **keywords
        As in `sample_predictive`.

    Returns
    -------
    ndarray of shape (n_samples,)
        Standard deviations. Rows of the fit have pulled the model towards themselves:
        theirs vary a little less than one.

    References
    ----------
    Dunn and Smyth, Journal of Computational and Graphical Statistics 5, 1996.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skboost import BoostedBayesianLinearRegression
    >>> from skboost.inspection import quantile_residuals
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BoostedBayesianLinearRegression(random_state=0).fit(X, y)
    >>> residuals = quantile_residuals(model, X, y)
    >>> bool(0.9 < residuals.std() < 1.1)
    True
    """
    asked = Asked(model, n, random_state, keywords, reported=False)
    y = asked.coded(X, y)
    below, at = np.empty((2, len(y)))
    for rows, responses in asked.responses(X):
        below[rows], at[rows] = responses.distribution(y[rows])
    place = below + asked.rng.random(len(y)) * (at - below)
    # Beyond, doubles have no quantile.
    return ndtri(np.clip(place, 1e-300, 1.0 - 1e-16))


class LeaveOneOut(NamedTuple):
    """What `leave_one_out` returns.

    Attributes
    ----------
    elpd : float
        Expected log predictive density of new rows, summed over rows, nats.
    se : float
        Its standard error, from how it varies between rows.
    p_loo : float
        Effective number of parameters: by how much rows of the fit are predicted
        better than new ones, nats.
    pointwise : ndarray of shape (n_samples,)
        The same for every row, nats.
    pareto_k : ndarray of shape (n_samples,)
        Shape of the tail of the importance weights.
    refitted : ndarray of bool of shape (n_samples,)
        Rows that another fit left out.
    """

    elpd: float
    se: float
    p_loo: float
    pointwise: np.ndarray
    pareto_k: np.ndarray
    refitted: np.ndarray

    def __repr__(self):
        return f"elpd {self.elpd:.1f} (se {self.se:.1f}), p_loo {self.p_loo:.1f}"


def leave_one_out(model, X, y, *, n=4000, refit=True, random_state=0, **keywords):
    """Leave-one-out cross-validation by Pareto-smoothed importance sampling.

    Draws of one posterior are weighted so that they stand for the posterior without a
    row. Where the weights of a row have a shape above 0.7 the model is fitted again
    without it: of several classes that are far apart that may be nearly every row.

    Parameters
    ----------
    model : estimator
        Fitted to these rows. It stays as it is.
    X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    n : int, default=4000
        Draws of the posterior; models with groups have at most 1,024.
    refit : bool, default=True
        False keeps estimates of rows with heavy tails, with a warning.
    random_state : int, RandomState instance or None, default=0
    **keywords
        ``offset``, ``exposure`` and ``trials``, as the fit had them if not by name.

    Returns
    -------
    LeaveOneOut
        Differences of `pointwise` between two models of the same rows compare them;
        the standard error of their sum is ``sqrt(n_samples)`` times their standard
        deviation.

    Warns
    -----
    UserWarning
        Where rows keep estimates that are not reliable.

    Notes
    -----
    The effects of a row's group are known from its other rows. Each row counts once,
    whatever its weight in the fit; probabilities are averages over the posterior.

    References
    ----------
    Vehtari, Gelman and Gabry, Statistics and Computing 27, 2017. Vehtari et al.,
    Journal of Machine Learning Research 25(72), 2024 (Algorithm 1).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skboost import BoostedBayesianLinearRegression
    >>> from skboost.inspection import leave_one_out
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BoostedBayesianLinearRegression(random_state=0).fit(X, y)
    >>> loo = leave_one_out(model, X, y)
    >>> bool(loo.pareto_k.max() < 0.7 and 5 < loo.p_loo < 15)
    True
    """
    asked = Asked(model, n, random_state, keywords)
    codes = asked.coded(X, y)
    power = getattr(asked.last, "temperature", 1.0)
    pointwise, pareto_k, here = np.empty((3, len(codes)))
    for rows, responses in asked.responses(X):
        logs = responses.log_density(codes[rows])
        here[rows] = log_sum_exp(logs) - np.log(logs.shape[1])
        for i, own in enumerate(logs, rows.start):
            weights, pareto_k[i] = psis(-power * own)
            pointwise[i] = np.diff(log_sum_exp(np.stack([weights, weights + own])))[0]
    heavy = np.flatnonzero(pareto_k > _HEAVY)
    refitted = np.zeros(len(codes), dtype=bool)
    for i in heavy if refit else ():
        pointwise[i] = _without(asked, X, y, i)
        refitted[i] = True
    if len(heavy) and not refit:
        warn_where_called(
            f"Weights of some rows ({len(heavy)} of {len(codes)}) have a Pareto shape "
            f"above {_HEAVY:g}: their part of elpd is not reliable. Set refit=True, "
            "which fits the model again without each.",
            UserWarning,
        )
    se = np.sqrt(len(codes) * pointwise.var())
    elpd, p_loo = pointwise.sum(), (here - pointwise).sum()
    return LeaveOneOut(
        float(elpd), float(se), float(p_loo), pointwise, pareto_k, refitted
    )


def _without(asked, X, y, i):
    """Log density of a row under the model fitted to all others, nats."""
    model = clone(asked.model)
    last, _ = last_step(model)
    if hasattr(last, "sharpen"):  # weights are for averages over the posterior
        last.set_params(sharpen=False)
    kept = np.delete(np.arange(num_samples(X)), i)
    # Names of columns are those of rows before the steps of a pipeline.
    _, others = asked.of_rows(kept).rows(rows_of(X, kept))
    fitting = {name: value for name, value in others.items() if name in BY_ROW}
    fitting = asked.last._by_name | fitting
    if asked.before is not None:
        step = model.steps[-1][0]
        fitting = {f"{step}__{name}": values for name, values in fitting.items()}
    with warnings.catch_warnings():
        # The fit to all rows said so.
        warnings.simplefilter("ignore", OverdispersionWarning)
        model.fit(rows_of(X, kept), rows_of(y, kept), **fitting)
    one = Asked(model, 1, 0, asked.of_rows([i]).keywords, reported=False)
    row, own = one.rows(rows_of(X, [i]))
    return one.last.log_predictive_density(row, rows_of(y, [i]), **own)[0]


def to_arviz(model, X, y, n=1000, *, n_chains=4, random_state=None, **keywords):
    """ArviZ data object of a model and rows (extra ``arviz``).

    ``arviz.loo``, ``arviz.compare`` and ``arviz.plot_ppc`` run on it. k-hat has no
    scale: of rows that are predicted surely it may be large without any meaning.

    Parameters
    ----------
    model, X
        As in `sample_predictive`.
    y : array-like of shape (n_samples,)
        Responses of the rows.
    n : int, default=1000
        Draws in all, rounded up to a multiple of `n_chains`.
    n_chains : int, default=4
        Draws are independent; ArviZ's diagnostics ask for chains.
    random_state : int, RandomState instance or None, default=None
    **keywords
        As in `sample_predictive`.

    Returns
    -------
    InferenceData or DataTree
        By the version of ArviZ. Its groups are ``posterior``, ``posterior_predictive``
        and ``log_likelihood`` (nats) of the same draws, and ``observed_data``; the last
        three have a variable ``y``, of classes their positions in ``classes_``.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skboost import BoostedBayesianLinearRegression
    >>> from skboost.inspection import to_arviz
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BoostedBayesianLinearRegression(random_state=0).fit(X, y)
    >>> import arviz as az  # doctest: +SKIP
    >>> az.loo(to_arviz(model, X, y))  # doctest: +SKIP
    """
    n = -(-check_size("n", n) // check_size("n_chains", n_chains)) * n_chains
    asked = Asked(model, n, random_state, keywords)
    codes = asked.coded(X, y)
    sampled, logs = np.empty((2, n, len(codes)))
    for rows, responses in asked.responses(X):
        sampled[:, rows] = responses.sample(asked.rng).T
        logs[:, rows] = responses.log_density(codes[rows]).T
    if np.asarray(codes).dtype.kind in "iu":
        sampled = sampled.astype(int)
    draws, names = asked.last._named(asked.drawn)
    groups = {
        "posterior": draws, "posterior_predictive": {"y": sampled},
        "log_likelihood": {"y": logs}, "observed_data": {"y": np.asarray(codes)},
    }  # fmt: skip
    return arviz_groups(groups, n_chains, **names)
