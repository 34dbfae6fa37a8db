"""Held-out entries of matrices: one split, folds, and scores by folds."""

from numbers import Integral, Real

import numpy as np
from scipy import sparse
from scipy.stats import norm
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from skboost._entries import Entries
from skboost._parallel import single_threaded
from skboost._random import generator, root_seed
from skboost._sklearn import HasMethods, Interval, StrOptions, validate_params


@validate_params(
    {
        "X": ["array-like", "sparse matrix"],
        "test_size": [
            Interval(Real, 0, 1, closed="neither"),
            Interval(Integral, 1, None, closed="left"),
        ],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def train_test_split_entries(X, *, test_size=0.1, random_state=None):
    """Training and test matrices of the same shape that share out the entries.

    Entries are drawn at random from all that were observed, but one of each row, drawn
    at random as well, stays in training: a row without any is predicted by the prior
    alone. Only where `test_size` asks for more than all others are these held out too.
    Columns have no such protection.

    Parameters
    ----------
    X : array-like, DataFrame or sparse matrix of shape (n_rows, n_columns)
        NaN is missing; of a sparse matrix the stored entries are observed, zeros among
        them.
    test_size : float or int, default=0.1
        Share of the observed entries that is held out, or their number.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    train, test : of the kind of `X`
        Each observed entry stands in one of them and is missing in the other.

    Raises
    ------
    ValueError
        If either of them would be without entries.

    See Also
    --------
    EntryKFold : Every entry held out once.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost.model_selection import train_test_split_entries
    >>> X = np.arange(20.0).reshape(4, 5)
    >>> train, test = train_test_split_entries(X, test_size=0.25, random_state=0)
    >>> int(np.isnan(train).sum()), int(np.isnan(test).sum())
    (5, 15)
    """
    entries = Entries.of(X)
    n = len(entries)
    n_test = int(test_size) if isinstance(test_size, Integral) else round(test_size * n)
    if not 0 < n_test < n:
        raise ValueError(
            f"test_size must leave entries on both sides; got test_size={test_size}, "
            f"{n_test} of the {n} observed entries. Change test_size."
        )
    rng = generator(root_seed(random_state))
    order = rng.permutation(n)
    # In random order the first of each row is a random one of it.
    _, first = np.unique(entries.rows[order], return_index=True)
    protected = np.zeros(n, dtype=bool)
    protected[first] = True
    held = np.zeros(n, dtype=bool)
    held[np.concatenate([order[~protected], order[protected]])[:n_test]] = True
    return _only(X, entries[~held]), _only(X, entries[held])


class EntryKFold:
    """Folds of the observed entries of a matrix, each held out once.

    The entries of a row are dealt out to the folds in turn, so that every fold has
    nearly the same share of each row, fold sizes differ by at most one, and only a row
    with a single entry is ever without any in training.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    shuffle : bool, default=True
        Whether rows, and the entries of each, are dealt out in random order. False
        takes them as they stand, by row and then by column: if the number of columns
        is a multiple of `n_splits` and nothing is missing, that holds out whole
        columns.
    random_state : int, RandomState instance or None, default=None
        With `shuffle` only.

    See Also
    --------
    cross_val_score_entries : Scores by folds.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost.model_selection import EntryKFold
    >>> X = np.arange(20.0).reshape(4, 5)
    >>> for train, held_out in EntryKFold(n_splits=2, random_state=0).split(X):
    ...     print(int(np.isnan(train).sum()), int(np.isnan(held_out).sum()))
    10 10
    10 10
    """

    def __init__(self, n_splits=5, *, shuffle=True, random_state=None):
        if not (isinstance(n_splits, Integral) and n_splits >= 2):
            raise ValueError(
                f"n_splits must be an integer of at least 2; got {n_splits!r}. For one "
                "split use train_test_split_entries."
            )
        if not isinstance(shuffle, bool | np.bool_):
            raise ValueError(f"shuffle must be True or False; got {shuffle!r}.")
        if not shuffle and random_state is not None:
            raise ValueError(
                "random_state has no effect with shuffle=False; got "
                f"{random_state!r}. Set shuffle=True, or leave random_state None."
            )
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def __repr__(self):
        return (
            f"EntryKFold(n_splits={self.n_splits}, shuffle={self.shuffle}, "
            f"random_state={self.random_state})"
        )

    def get_n_splits(self, X=None, y=None, groups=None):
        """Number of folds; the arguments are ignored."""
        return self.n_splits

    def split(self, X, y=None, groups=None):
        """Training and held-out matrices, one pair for each fold.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of shape (n_rows, n_columns)
            As in `train_test_split_entries`.
        y, groups : None
            Ignored.

        Yields
        ------
        train, held_out : of the kind of `X`

        Raises
        ------
        ValueError
            If there are fewer observed entries than folds.
        """
        entries = Entries.of(X)
        if len(entries) < self.n_splits:
            raise ValueError(
                f"n_splits={self.n_splits} must not be larger than the number of "
                f"observed entries of X; got {len(entries)}. Use fewer folds."
            )
        # Positions of the entries, those of a row together.
        order = np.arange(len(entries))
        if self.shuffle:
            rng = generator(root_seed(self.random_state))
            place = rng.permutation(entries.shape[0])
            order = np.lexsort((rng.random(len(entries)), place[entries.rows]))
        fold = np.empty(len(entries), dtype=int)
        fold[order] = np.arange(len(entries)) % self.n_splits
        for k in range(self.n_splits):
            yield _only(X, entries[fold != k]), _only(X, entries[fold == k])


def _only(X, entries):
    """A matrix of the kind of `X` with some of its entries, the others missing."""
    if sparse.issparse(X):
        parts = X.tocoo()
        where = entries.rows, entries.columns
        made = type(parts)((entries.values.astype(X.dtype), where), shape=X.shape)
        return made.asformat(X.format)
    kept = np.zeros(entries.shape, dtype=bool)
    kept[entries.rows, entries.columns] = True
    if hasattr(X, "where"):
        return X.where(kept)
    values = np.asarray(X)
    if not np.issubdtype(values.dtype, np.floating):
        values = values.astype(float)
    return np.where(kept, values, values.dtype.type(np.nan))


# --- scores


# Functions of the errors; larger is better in all of them.
_SCORES = {
    "neg_mean_squared_error": lambda errors: -np.mean(errors**2),
    "neg_root_mean_squared_error": lambda errors: -np.sqrt(np.mean(errors**2)),
    "neg_mean_absolute_error": lambda errors: -np.mean(np.abs(errors)),
}


@validate_params(
    {
        "estimator": [HasMethods(["fit", "get_params"])],
        "X": ["array-like", "sparse matrix"],
        "cv": [Interval(Integral, 2, None, closed="left"), HasMethods("split")],
        "scoring": [StrOptions(set(_SCORES)), callable, None],
        "n_jobs": [Integral, None],
    },
    prefer_skip_nested_validation=False,
)
def cross_val_score_entries(estimator, X, *, cv=5, scoring=None, n_jobs=None):
    """Scores of entries that are held out in turn, for choosing a rank.

    A clone of the estimator is fitted to the training entries of each fold and predicts
    the held-out ones of the same rows and columns. Cross-validation over rows, as
    scikit-learn has it, asks another question: how well new rows are predicted.

    Parameters
    ----------
    estimator : estimator object
        Has ``predict_entries``, as the matrix factorisations do, unless `scoring` is a
        callable.
    X : array-like, DataFrame or sparse matrix of shape (n_rows, n_columns)
        As in `train_test_split_entries`.
    cv : int or splitter, default=5
        Number of folds, or an object whose ``split(X)`` yields training and held-out
        matrices, such as `EntryKFold`. A number stands for
        ``EntryKFold(cv, random_state=0)``: the same folds at every call, so that the
        scores of two estimators can be compared fold by fold.
    scoring : {"neg_mean_squared_error", "neg_root_mean_squared_error", \
            "neg_mean_absolute_error"}, callable or None, default=None
        None: mean log predictive density, nats per entry, which judges the predicted
        uncertainty as well; of an estimator without ``log_density_entries`` that of a
        normal distribution of the predicted mean and standard deviation. A callable
        ``scoring(estimator, train, held_out)`` returns a number, the larger the
        better, and serves estimators of another kind, such as topic models.
    n_jobs : int, default=None
        Folds at the same time; the answer is the same for every number.

    Returns
    -------
    ndarray of shape (n_folds,)

    Raises
    ------
    TypeError
        If the estimator has no ``predict_entries`` and `scoring` is no callable.

    See Also
    --------
    EvidenceSearch : Chooses by the evidence, on all of the entries.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost import SVIMatrixFactorization
    >>> from skboost.model_selection import cross_val_score_entries
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(30, 2)) @ rng.normal(size=(2, 12))
    >>> X += 0.1 * rng.normal(size=X.shape)
    >>> for rank in (1, 2):
    ...     model = SVIMatrixFactorization(rank, random_state=0)
    ...     print(rank, cross_val_score_entries(model, X, cv=3).mean() > -0.5)
    1 False
    2 True
    """
    predicts = HasMethods("predict_entries").is_satisfied_by(estimator)
    if not (callable(scoring) or predicts):
        raise TypeError(
            "estimator must have predict_entries(rows, columns); got "
            f"{type(estimator).__name__}, which has not. Pass as scoring a callable of "
            "(estimator, train, held_out)."
        )
    splitter = EntryKFold(cv, random_state=0) if isinstance(cv, Integral) else cv
    scores = Parallel(n_jobs=n_jobs)(
        delayed(_fold_score)(estimator, train, held_out, scoring)
        for train, held_out in splitter.split(X)
    )
    return np.array(scores, dtype=float)


def _fold_score(estimator, train, held_out, scoring):
    fitted = clone(estimator)
    with single_threaded():
        fitted.fit(train)
        if callable(scoring):
            return scoring(fitted, train, held_out)
        held = Entries.of(held_out)
        where = held.rows, held.columns
        if scoring is not None:
            return _SCORES[scoring](held.values - fitted.predict_entries(*where))
        if HasMethods("log_density_entries").is_satisfied_by(fitted):
            return np.mean(fitted.log_density_entries(*where, held.values))
        mean, std = fitted.predict_entries(*where, return_std=True)
        return norm.logpdf(held.values, mean, std).mean()
