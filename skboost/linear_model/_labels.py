"""Labels as codes, the weights of rows, and names of coordinates."""

from itertools import count

import numpy as np
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from skboost._sklearn import check_sample_weight


def classes_of(labels):
    """The distinct labels, sorted.

    Raises
    ------
    ValueError
        If they are no classes, of several types, or fewer than two.
    """
    labels = np.asarray(labels)
    check_types(labels)
    check_classification_targets(labels)
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ValueError(
            "y must have at least two classes; got one class "
            f"({classes.tolist()[0]!r}). Add examples of another class, or name all "
            "classes in partial_fit(classes=...)."
        )
    return classes


def learned_classes(y, named, before):
    """The classes of a model that may have learned before.

    Parameters
    ----------
    y : ndarray
        Labels of these rows.
    named : array-like or None
        All classes, where the user has named them.
    before : ndarray or None
        Those of earlier rows.

    Raises
    ------
    ValueError
        If others are named than before, or as `classes_of`.
    """
    if before is None:
        return classes_of(y if named is None else named)
    if named is not None and not np.array_equal(np.unique(named), before):
        raise ValueError(
            f"classes must stay {before.tolist()}, as at the first partial_fit; got "
            f"{np.unique(named).tolist()}."
        )
    return before


def codes_of(y, classes):
    """Position of every label among the sorted classes.

    Raises
    ------
    ValueError
        For a label that is not among them.
    """
    check_types(y)
    check_classification_targets(y)
    strange = np.setdiff1d(y, classes)
    if len(strange):
        raise ValueError(
            f"y must hold labels among the classes {classes.tolist()}; got "
            f"{strange.tolist()}. Name all classes at the first partial_fit."
        )
    return np.searchsorted(classes, y)


def row_weights(X, codes, classes, sample_weight, class_weight):
    """Sample weights times class weights, shape (n_samples,).

    Raises
    ------
    ValueError
        If a weight is negative or no number, or all are zero.
    """
    weight = check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    if class_weight is None:
        return weight
    return weight * class_weights(class_weight, classes, codes, weight)[codes]


def class_weights(class_weight, classes, codes, weight):
    """The weight of every class, given the codes and weights of rows.

    Raises
    ------
    ValueError
        If a weight means nothing, or no row is left.
    """
    by_class = compute_class_weight(
        class_weight, classes=classes, y=classes[codes], sample_weight=weight
    )
    total = (weight * by_class[codes]).sum()
    if not (np.isfinite(by_class).all() and by_class.min() >= 0 and total > 0):
        raise ValueError(
            "class_weight must be finite and not negative, and leave a row of "
            f"positive weight; got {class_weight!r}."
        )
    return by_class


def distinct(names):
    """The names as strings; one that came before gets a number."""
    seen = {}
    for name in map(str, names):
        free = (f"{name} ({n})" if n > 1 else name for n in count(1))
        seen[next(candidate for candidate in free if candidate not in seen)] = None
    return list(seen)


def check_types(labels):
    """Refuse labels of several types."""
    if labels.dtype != object:
        return
    types = sorted({type(label).__name__ for label in labels.ravel()})
    if len(types) > 1:
        raise ValueError(
            f"y must hold labels of one type; got labels of types {types}. Convert "
            "them first, for example to strings."
        )
