"""Rows of a fit that are not held in memory: checked in one pass, coded in all."""

from dataclasses import dataclass, field

import numpy as np
from scipy import sparse
from sklearn.utils import check_array, column_or_1d, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from skboost._row_blocks import BlockTables, Table, checked_weights, is_mapped
from skboost.linear_model._labels import check_types, checked_class_weights, classes_of
from skboost.linear_model._summary import Summary, merged
from skboost.targets import validate_offset


@dataclass
class Labels:
    """Responses that are labels of classes.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
    """

    class_weight: object = None

    def checked(self, y, n_rows):
        """Labels of a block, (n_rows,)."""
        y = column_or_1d(y)
        check_types(y)
        check_classification_targets(y)
        return y

    def found(self, y, weight):
        """Weight of every label of a block."""
        labels, codes = np.unique(y, return_inverse=True)
        return dict(zip(labels.tolist(), np.bincount(codes, weight), strict=True))

    def code(self, found):
        """How responses are coded once all labels are known."""
        classes = classes_of(np.array(list(found)))
        total = np.array([found[label] for label in classes.tolist()])
        by_class = None
        if self.class_weight is not None:
            by_class = checked_class_weights(
                compute_class_weight(
                    self.class_weight, classes=classes, y=classes, sample_weight=total
                ),
                total.sum(),
                self.class_weight,
            )
        return LabelCode(classes, by_class)


@dataclass
class LabelCode:
    """Labels of a block as codes, its weights times those of the classes."""

    classes: np.ndarray
    by_class: np.ndarray | None

    def __call__(self, y, weight):
        codes = np.searchsorted(self.classes, column_or_1d(y))
        return codes, weight if self.by_class is None else weight * self.by_class[codes]


@dataclass
class Numbers:
    """Responses that are numbers.

    Parameters
    ----------
    likelihood : Likelihood
        Whose ``checked`` says which.
    """

    likelihood: object

    def checked(self, y, n_rows):
        """Responses of a block, (n_rows,)."""
        return self.likelihood.checked(y, n_rows)

    def found(self, y, weight):
        """Nothing that a code has to know."""
        return {}

    def code(self, found):
        """How responses are coded."""
        return as_floats


def as_floats(y, weight):
    """Responses of a block as numbers."""
    return np.asarray(y, dtype=float), weight


@dataclass
class Found:
    """What one pass over rows has found.

    Attributes
    ----------
    n_rows : int
    summary : Summary
    labels : dict
        Weight of every label.
    """

    n_rows: int
    summary: Summary
    labels: dict = field(default_factory=dict)


def looked_at(kind, X, y, weight=None, offset=None, name="RowBlocks"):
    """Check a block of rows, and say what is in it.

    Parameters
    ----------
    kind : Labels or Numbers
    X, y, weight, offset
        Of the block, as they came.
    name : str
        What the rows are called in messages.

    Returns
    -------
    Found

    Raises
    ------
    ValueError
        For what is not finite, or of another shape than it must be.
    """
    kinds = [np.float64, np.float32]
    X = check_array(X, accept_sparse="csr", dtype=kinds, input_name="X")
    n_rows = X.shape[0]
    if y is None or len(y) != n_rows:
        raise ValueError(
            f"{name} must have as many responses as rows in every block; got "
            f"{'none' if y is None else len(y)} for {n_rows} rows."
        )
    y = kind.checked(np.asarray(y), n_rows)
    weight = checked_weights(weight, n_rows)
    offset = None if offset is None else validate_offset(offset, n_rows)
    numbers = y if isinstance(kind, Numbers) else None
    return Found(
        n_rows,
        Summary.of(Table(X, numbers, weight, offset)),
        kind.found(y, np.broadcast_to(weight, n_rows)),
    )


def together(kind, parts):
    """What was found in all blocks: the moments of the rows, the code of responses.

    Parameters
    ----------
    kind : Labels or Numbers
    parts : iterable of Found

    Returns
    -------
    summary : Summary
    code : callable

    Raises
    ------
    ValueError
        For no rows, rows of no weight, or labels that are no classes.
    """
    parts = list(parts)
    if not parts or not (summary := merged(part.summary for part in parts)).weight > 0:
        raise ValueError(
            "The rows must have at least one of positive weight; got "
            f"{sum(part.n_rows for part in parts)} rows of weight 0."
        )
    labels = {}
    for part in parts:
        for label, weight in part.labels.items():
            labels[label] = labels.get(label, 0.0) + weight
    return summary, kind.code(labels)


def far_rows(estimator, kind, blocks, arrays):
    """A `RowSource` of rows that are not held in memory, after a pass that checks them.

    Parameters
    ----------
    estimator : estimator
        Gets ``n_features_in_``, and the names of the features where blocks have them.
    kind : Labels or Numbers
    blocks : RowBlocks
    arrays : tuple
        X, y, sample_weight, offset as they were passed to ``fit``.

    Returns
    -------
    RowSource
        With the ``code`` of the responses.
    """
    parts = []
    for block in blocks:
        validate_data(estimator, block[0], reset=not parts, skip_check_array=True)
        parts.append(looked_at(kind, *block))
    n_rows = sum(part.n_rows for part in parts)
    summary, code = together(kind, parts)
    n_jobs = estimator.n_jobs
    if is_mapped(arrays[0]):
        X, y, weight, offset = arrays
        weight = 1.0 if weight is None else np.asarray(weight, dtype=float)
        rows = Table(X, np.asarray(y), weight, offset, code, n_jobs)
    else:

        def tables():
            for X, y, weight, offset in blocks:
                X = X.tocsr() if sparse.issparse(X) else np.asarray(X)
                weight = checked_weights(weight, X.shape[0])
                yield Table(X, np.asarray(y), weight, offset, code, n_jobs, "shared")

        rows = BlockTables(tables, n_rows, estimator.n_features_in_)
    rows.summary, rows.code = summary, code
    return rows
