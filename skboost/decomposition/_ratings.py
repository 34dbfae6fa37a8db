"""Ratings as they are kept: users, items and numbers, one rating a row."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.special import ndtri
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from skboost._columns import check_responses, is_dated, missing_in, validate_any
from skboost._pickles import VersionedPickle
from skboost._sklearn import HasMethods, fit_context
from skboost.decomposition._svi_matrix_factorization import SVIMatrixFactorization
from skboost.fitting import warn_where_called
from skboost.posterior import check_level, check_size


class RatingRegressor(RegressorMixin, VersionedPickle, BaseEstimator):
    """Ratings of items by users: a matrix factorisation of pairs in place of a matrix.

    `X` has two columns, labels of users and of items, and `y` a number for each pair.
    So ratings are split, scored and searched as the rows of any other regression.

    Parameters
    ----------
    estimator : SVIMatrixFactorization or BoostedMatrixFactorization, default=None
        Factorises the matrix of users by items. None is
        ``SVIMatrixFactorization(5, biases=True)``.
    clip : bool, default=True
        Whether predictions and ends of intervals stay between the least and the largest
        rating so far.

    Attributes
    ----------
    estimator_ : estimator
        The fitted factorisation. Its rows are `users_` and its columns `items_`, each
        with one more, that of whatever was not seen.
    users_, items_ : ndarray
        Labels in their order, those that `partial_fit` was the first to see last.
    rating_range_ : tuple of float
        Least and largest rating so far.
    n_features_in_ : int
        Two.

    See Also
    --------
    SVIMatrixFactorization : Matrices with missing entries.

    Notes
    -----
    There is no ``sample_weight``: an entry of a matrix has one normal noise, whose
    standard deviation is a parameter of the model and not of the entry.

    Examples
    --------
    >>> from skboost.decomposition import RatingRegressor
    >>> X = [["ann", "jaws"], ["ann", "alien"], ["bob", "jaws"], ["bob", "up"]]
    >>> model = RatingRegressor().fit(X, [5, 4, 2, 1])
    >>> model.predict([["bob", "alien"], ["eve", "jaws"]]).shape
    (2,)
    >>> items, ratings = model.recommend("ann")
    >>> items.tolist()
    ['up']
    """

    _parameter_constraints = {
        "estimator": [HasMethods(["fit", "predict_entries"]), None],
        "clip": ["boolean"],
    }

    def __init__(self, estimator=None, *, clip=True):
        self.estimator = estimator
        self.clip = clip

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y):
        """Fit the factorisation of the ratings. Returns self.

        Parameters
        ----------
        X : array-like of shape (n_ratings, 2)
            Users and items, such as two columns of a DataFrame.
        y : array-like of shape (n_ratings,)
            Ratings.

        Raises
        ------
        ValueError
            If a pair is rated twice, `X` has not two columns, a label is missing, or a
            rating is not finite. What was fitted before stays usable.

        Warns
        -----
        UserWarning
            If all ratings are the same.
        """
        read = _Ratings.of(X, y)
        factorisation = self.estimator
        if factorisation is None:
            factorisation = SVIMatrixFactorization(5, biases=True, random_state=0)
        self._keep(clone(factorisation).fit(read.matrix), read)
        # Names of columns, by which `predict` knows them.
        validate_any(self, X, skip_check_array=True)
        return self

    @fit_context(prefer_skip_nested_validation=False)
    def partial_fit(self, X, y):
        """Take new ratings in, of users and items that are known and of new ones.

        The posterior so far is the prior of what the new ratings say, as in
        `SVIMatrixFactorization.partial_fit`; new users and items begin with the prior
        of average ones. On an estimator that was not fitted this is `fit`.

        Parameters
        ----------
        X, y
            As in `fit`, of the *new* ratings only.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As `fit` does; for pairs that were rated before; for labels of another kind
            than those so far; and where `estimator` is no `SVIMatrixFactorization`.
        """
        if "estimator_" not in vars(self):
            return self.fit(X, y)
        if not isinstance(self.estimator_, SVIMatrixFactorization):
            raise ValueError(
                "estimator must be an SVIMatrixFactorization for partial_fit; got "
                f"{type(self.estimator_).__name__}, which needs all ratings at once. "
                "Call fit with all of them."
            )
        validate_any(self, X, reset=False, skip_check_array=True)
        read = _Ratings.of(X, y, self)
        wide = self.estimator_._widened(len(read.items) + 1)
        self._keep(wide.partial_fit(read.matrix), read)
        return self

    def _keep(self, factorisation, read):
        self.estimator_, self._rated = factorisation, read.rated
        self.users_, self.items_ = read.users, read.items
        self.rating_range_ = read.range
        if read.range[0] == read.range[1]:
            warn_where_called(
                f"All ratings so far are {read.range[0]:g}: they say who rated what, "
                "and nothing of who likes it. Pass pairs that nobody chose as ratings "
                "of 0, or use a method for choices without ratings.",
                UserWarning,
            )

    def predict(self, X, return_std=False):
        """Expected ratings.

        Parameters
        ----------
        X : array-like of shape (n_pairs, 2)
            Users and items. Of those that `fit` has not seen the prior is known, which
            with `biases` is an average user or item.
        return_std : bool, default=False

        Returns
        -------
        mean : ndarray of shape (n_pairs,)
        std : ndarray of shape (n_pairs,)
            Of the predictive distribution, noise included and nothing clipped; if asked
            for.
        """
        mean, std = self._entries(X)
        return (self._clipped(mean), std) if return_std else self._clipped(mean)

    def predict_interval(self, X, level=0.9):
        """Central intervals of new ratings, noise included, of shape (n_pairs, 2).

        Parameters
        ----------
        X : array-like of shape (n_pairs, 2)
        level : float, default=0.9
            Probability inside, in (0, 1), of a normal distribution.
        """
        tail = 0.5 + 0.5 * check_level(level)
        mean, std = self._entries(X)
        half = ndtri(tail) * std
        return self._clipped(np.column_stack([mean - half, mean + half]))

    def recommend(self, user, n=10, exclude_rated=True):
        """The items that a user is expected to rate highest.

        Parameters
        ----------
        user : label
            One that `fit` has not seen gets what an average user likes.
        n : int, default=10
            How many; fewer where there are not so many items.
        exclude_rated : bool, default=True
            Leave out what the user has rated.

        Returns
        -------
        items : ndarray of shape (n,)
            Best first.
        ratings : ndarray of shape (n,)
            Expected ratings, as `predict` gives them.
        """
        check_is_fitted(self)
        check_size("n", n)
        row = _positions(self.users_, np.array([user], dtype=object))[0]
        columns = np.arange(len(self.items_))
        if exclude_rated:
            known = self._rated.indices[slice(*self._rated.indptr[row : row + 2])]
            columns = np.setdiff1d(columns, known)
        mean = self.estimator_.predict_entries(np.full(len(columns), row), columns)
        # Ranked before they are clipped, where many are alike.
        best = np.argsort(-mean, kind="stable")[:n]
        return self.items_[columns[best]], self._clipped(mean[best])

    def _entries(self, X):
        check_is_fitted(self)
        validate_any(self, X, reset=False, skip_check_array=True)
        users, items = _labels(X)
        rows, columns = _positions(self.users_, users), _positions(self.items_, items)
        return self.estimator_.predict_entries(rows, columns, return_std=True)

    def _clipped(self, ratings):
        return np.clip(ratings, *self.rating_range_) if self.clip else ratings

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags


@dataclass(frozen=True)
class _Ratings:
    """All ratings so far: `matrix`, whose last row and column have none, labels and
    range."""

    users: np.ndarray
    items: np.ndarray
    matrix: sparse.coo_array
    rated: sparse.csr_array
    range: tuple

    @classmethod
    def of(cls, X, y, before=None):
        """Of what users pass, after the ratings of a fitted `RatingRegressor`."""
        pairs = _labels(X)
        check_responses(y)
        y = check_array(
            column_or_1d(y, warn=True),
            ensure_2d=False,
            dtype=np.float64,
            input_name="y",
        )
        check_consistent_length(pairs[0], y)
        known, ends = ((), ()), ()
        if before is not None:
            known, ends = (before.users_, before.items_), before.rating_range_
        (users, rows), (items, columns) = map(_coded, pairs, known)
        shape = len(users) + 1, len(items) + 1
        matrix = sparse.coo_array((y, (rows, columns)), shape=shape)
        places = rows, columns
        if before is not None:
            so_far = before._rated.tocoo()
            places = np.hstack([places, [so_far.row, so_far.col]])
        ones = np.ones(len(places[0]), dtype=bool)
        rated = sparse.csr_array(sparse.coo_array((ones, (*places,)), shape=shape))
        twice = len(ones) - rated.nnz
        if twice:
            raise ValueError(
                "X must have a pair once; got ratings of pairs that were rated before "
                f"(n={twice}). Keep one of each, or their mean."
            )
        return cls(users, items, matrix, rated, _range(y, *ends))


def _range(y, *ends):
    """Least and largest of numbers and what was so before."""
    values = np.append(y, ends)
    return float(values.min()), float(values.max())


def _labels(X):
    """Labels of users and of items, two arrays of objects."""
    if is_dated(X):
        raise ValueError(
            "X must have strings or numbers as labels; got dates or durations. "
            "Convert them to strings."
        )
    X = check_array(X, dtype=object, ensure_all_finite=False, input_name="X")
    if X.shape[1] != 2:
        raise ValueError(
            "X must have two columns, users and items, with the ratings as y; got "
            f"shape {X.shape}."
        )
    missing = missing_in(X).any(axis=1)
    if missing.any():
        raise ValueError(
            "X must have a label in every place; some are missing, first in row "
            f"{np.argmax(missing)} ({missing.sum()} in all). Drop these rows."
        )
    return X.T


def _coded(labels, known=()):
    """Labels so far and then new ones in their order, and the position of each."""
    so_far = np.asarray(known).tolist()
    try:
        values = np.unique(np.concatenate([np.array(so_far, dtype=object), labels]))
    except TypeError as error:
        raise ValueError(
            "X must have labels of one kind in a column, all numbers or all strings; "
            "got several."
        ) from error
    held = set(so_far)
    found = np.array(so_far + [one for one in values.tolist() if one not in held])
    return found, _positions(found, labels)


def _positions(known, labels):
    """Positions of labels among those of the fit; the one after them for others."""
    place = {label: k for k, label in enumerate(known.tolist())}
    return np.array([place.get(label, len(known)) for label in labels], dtype=int)
