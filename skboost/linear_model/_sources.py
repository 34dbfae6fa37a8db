"""How the linear models read rows, by the kind of their responses; labels as codes."""

from dataclasses import dataclass

import numpy as np
from sklearn.utils import check_array, column_or_1d, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from skboost._columns import check_responses, gaps_named, validate_data
from skboost._row_blocks import RowReader, Table, checked_weights
from skboost.fitting import row_weights, warn_of_weights
from skboost.linear_model._methods import one_response
from skboost.linear_model._summary import Summary, check_offsets, merged
from skboost.targets import validate_offset


class Responses(RowReader):
    """Rows with responses; subclasses say which, by ``checked`` and ``held``."""

    # Whether likelihoods add offsets to linear predictors.
    adds_offsets = True

    def look(self, index, X, y, weight=None, offset=None):
        """The `Summary` of a block of rows, after its check."""
        kinds = [np.float64, np.float32]
        with gaps_named(X, f" of block {index}"):
            X = check_array(X, accept_sparse="csr", dtype=kinds, input_name="X")
        n_rows = X.shape[0]
        of_rows = {"y": y, "sample_weight": weight, "offset": offset}
        for name, part in of_rows.items():
            shape = np.shape(part)[:1]
            if shape != (n_rows,) and (part is not None or name == "y"):
                raise ValueError(
                    f"{name} must have as many entries as its block has rows, "
                    f"{n_rows}; got {shape[0] if shape else part} in block {index}."
                )
        if offset is not None and not self.adds_offsets:
            raise ValueError(
                "Blocks must have no offsets for a linear regression: yield responses "
                "less their offsets."
            )
        y = self.checked(np.asarray(y), n_rows)
        weight = checked_weights(weight, n_rows)
        offset = None if offset is None else validate_offset(offset, n_rows)
        return self._summary(X, y, weight, offset)

    def _summary(self, X, y, weight, offset):
        return Summary.of(Table(X, y, weight, offset))

    def together(self, parts):
        """The `Summary` of all blocks; a ValueError where no row has a weight."""
        summary = merged(parts)
        if summary is None or not summary.weight > 0:
            raise ValueError(
                "The rows must have at least one of positive weight; got "
                f"none of {0 if summary is None else summary.n_rows}."
            )
        warn_of_weights(summary.weight, summary.n_rows)
        return summary


@dataclass
class Labels(Responses):
    """Responses that are labels of classes; they become codes.

    `named` are all classes that there will be, as a user named them, and `classes`
    those of earlier rows; once rows were read, those that hold.
    """

    class_weight: object = None
    named: object = None
    classes: np.ndarray | None = None
    by_class: np.ndarray | None = None

    def held(self, estimator, X, y, sample_weight=None, offset=None, reset=True):
        """A `Table` of rows in memory, in canonical form."""
        X, y = validate_data(
            estimator, X, y, reset=reset, accept_sparse="csr", dtype=np.float64
        )
        advice = NAME_CLASSES if hasattr(estimator, "partial_fit") else ""
        self.classes = learned_classes(y, self.named, self.classes, advice)
        codes = codes_of(y, self.classes, "Name all classes at the first partial_fit.")
        weight = row_weights(X, sample_weight)
        if offset is not None:
            check_offsets(validate_offset(offset, len(codes)), counted=False)
        if self.class_weight is not None:
            weight = weight * self._class_weights(codes, weight)[codes]
        return canonical(X, codes, weight, offset, self.n_jobs)

    def checked(self, y, n_rows):
        """Labels of a block, (n_rows,)."""
        return check_labels(column_or_1d(y))

    def _summary(self, X, y, weight, offset):
        labels, codes = np.unique(y, return_inverse=True)
        weights = np.bincount(codes, np.broadcast_to(weight, len(y)))
        labels = dict(zip(labels.tolist(), weights, strict=True))
        return super()._summary(X, None, weight, offset)._replace(labels=labels)

    def together(self, parts):
        """The `Summary` of all blocks; learns the classes and their weights."""
        summary = super().together(parts)
        self.classes = learned_classes(np.array(list(summary.labels)), None, None)
        if self.class_weight is not None:
            total = [summary.labels[label] for label in self.classes.tolist()]
            codes = np.arange(len(total))
            self.by_class = self._class_weights(codes, np.array(total))
        return summary

    def known(self, summary):
        # Columns were not weighed by class before the classes were known.
        return summary if self.by_class is None else None

    def _class_weights(self, codes, weight):
        """The weight of every class, given the codes and weights of rows."""
        by_class = compute_class_weight(
            self.class_weight,
            classes=self.classes,
            y=self.classes[codes],
            sample_weight=weight,
        )
        total = (weight * by_class[codes]).sum()
        if not (np.isfinite(by_class).all() and by_class.min() >= 0 and total > 0):
            raise ValueError(
                "class_weight must be finite and not negative, and leave a row of "
                f"positive weight; got {self.class_weight!r}."
            )
        return by_class

    def coded(self, y, weight):
        """Labels of a block as codes, its weights times those of the classes."""
        codes = np.searchsorted(self.classes, column_or_1d(y))
        return codes, weight if self.by_class is None else weight * self.by_class[codes]


@dataclass
class Numbers(Responses):
    """Responses that are numbers, those that the likelihood's ``checked`` takes.

    `exposed` says whether offsets were subtracted from them.
    """

    likelihood: object = None
    exposed: bool = False

    adds_offsets = False

    def held(self, estimator, X, y, sample_weight=None, offset=None, reset=True):
        """A `Table` of rows in memory."""
        X, y = validate_data(
            estimator, X, one_response(y), reset=reset, accept_sparse="csr",
            dtype=np.float64, y_numeric=True,
        )  # fmt: skip
        weight = row_weights(X, sample_weight)
        y = self.checked(y, X.shape[0])
        return canonical(X, y, weight, offset, self.n_jobs)

    def checked(self, y, n_rows):
        """Responses of a block, (n_rows,)."""
        check_responses(y)
        return self.likelihood.checked(y, n_rows)

    def coded(self, y, weight):
        """Responses of a block as numbers."""
        return np.asarray(y, dtype=float), weight


@dataclass
class Counts(Numbers):
    """Responses that are counts, of rows with offsets."""

    adds_offsets = True


def canonical(X, y, weight, offset, n_jobs):
    """A `Table` in canonical form, of rows with offsets or None."""
    offset = None if offset is None else validate_offset(offset, len(y))
    if offset is None or not offset.any():
        return Table.canonical(X, y, weight, n_jobs)
    rows = Table.canonical(X, np.column_stack([y, offset]), weight, n_jobs)
    codes, rows.offset = rows.y.T
    rows.y = codes.astype(y.dtype)
    return rows


# --- labels as codes


NAME_CLASSES = ", or name all classes in partial_fit(classes=...)"


def learned_classes(y, named, before, advice=""):
    """The classes, sorted: of labels, as a user `named` them, or those of `before`."""
    if before is None:
        classes = np.unique(check_labels(np.asarray(y if named is None else named)))
        if len(classes) < 2:
            raise ValueError(
                "y must have at least two classes; got one class "
                f"({classes.tolist()[0]!r}). Add examples of another class{advice}."
            )
        return classes
    if named is not None and not np.array_equal(np.unique(named), before):
        raise ValueError(
            f"classes must stay {before.tolist()}, as at the first partial_fit; got "
            f"{np.unique(named).tolist()}."
        )
    return before


def codes_of(y, classes, advice="Drop these rows, or fit again with all classes."):
    """Position of every label among the classes, in any order."""
    # Whole numbers and strings are among them or not.
    if y.dtype.kind not in "iubU":
        check_labels(y)
    strange = np.unique(y[~np.isin(y, classes)])
    if len(strange):
        raise ValueError(
            f"y must hold labels among the classes {classes.tolist()}; got "
            f"{strange.tolist()}. {advice}"
        )
    order = np.argsort(classes)
    return order[np.searchsorted(classes, y, sorter=order)]


def ranks_of(categories):
    """Places of sorted classes among `categories`; None where these are sorted."""
    ranks = np.argsort(categories)
    return ranks if np.any(np.diff(ranks) < 0) else None


def check_labels(labels):
    """Refuse missing labels, labels of several types, and what is no label."""
    if labels.dtype.kind in "OfM":
        # Neither NaN nor NaT is itself, and pandas' NA says neither yes nor no.
        if labels.dtype == object:
            missing = np.flatnonzero([
                label is None or type(label).__name__ == "NAType" or label != label
                for label in labels.ravel()
            ])  # fmt: skip
        else:
            missing = np.flatnonzero(labels.ravel() != labels.ravel())
        if len(missing):
            raise ValueError(
                f"y must have a label in every row; got {labels.ravel()[missing[0]]} "
                f"in row {missing[0]} ({len(missing)} missing in all). Drop the rows."
            )
    if labels.dtype == object:
        types = sorted({type(label).__name__ for label in labels.ravel()})
        if len(types) > 1:
            raise ValueError(
                f"y must hold labels of one type; got labels of types {types}. Convert "
                "them first, for example to strings."
            )
    # Two whole numbers or strings are labels: to know that is a tenth of a small fit.
    if labels.dtype.kind not in "iubU" or len(np.unique(labels)) > 2:
        check_classification_targets(labels)
    return labels
