"""Steps of a pipeline before a model, from arrays: tables of objects in, numbers out.

Whatever stands here has to run without the package: NumPy and the standard library are
all there is. A step takes an array (n_samples, n_columns) and gives another, of `width`
columns.
"""

from dataclasses import dataclass

import numpy as np


def in_order(X, names):
    """A data frame with the columns of the fit in its order; arrays as they are."""
    held = list(getattr(X, "columns", ()))
    if not names or not held or not all(isinstance(name, str) for name in held):
        return X
    missing = [name for name in names if name not in held]
    if missing:
        raise ValueError(
            f"X must have the columns of the fit; got none named {missing[0]!r} "
            f"({len(missing)} missing in all)."
        )
    return X[list(names)]


@dataclass
class Before:
    """All steps before a model, for rows as a user passes them."""

    n_features: int
    step: object

    def rows(self, X):
        """What the model is given for these rows."""
        # Objects, so that numbers beside strings stay numbers.
        X = np.asarray(X, dtype=object)
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise ValueError(
                f"X must have shape (n_samples, {self.n_features}); got {X.shape}."
            )
        return self.step.apply(np.where(is_na(X).astype(bool), np.nan, X))


# The value of pandas that is missing, by its name: pandas need not be there.
is_na = np.frompyfunc(lambda value: type(value).__name__ == "NAType", 1, 1)


@dataclass
class Chain:
    """Steps one after another."""

    steps: tuple

    @property
    def width(self):
        return self.steps[-1].width

    def apply(self, X):
        for step in self.steps:
            X = step.apply(X)
        return X


@dataclass
class Columns:
    """Pairs of the columns that a step takes and the step, side by side."""

    pairs: tuple

    @property
    def width(self):
        return sum(step.width for _, step in self.pairs)

    def apply(self, X):
        parts = [step.apply(X[:, columns]) for columns, step in self.pairs]
        return np.hstack([np.empty((len(X), 0)), *parts])


@dataclass
class Scaled:
    """Columns of numbers, each times a factor and shifted; missing ones stay so."""

    columns: object
    factor: object
    shift: object

    @property
    def width(self):
        return len(self.shift)

    def apply(self, X):
        return X.astype(float)[:, self.columns] * self.factor + self.shift


@dataclass
class Affine:
    """A matrix and a shift of all columns."""

    matrix: object
    shift: object

    @property
    def width(self):
        return len(self.shift)

    def apply(self, X):
        return X.astype(float) @ self.matrix + self.shift


@dataclass
class Imputed:
    """Values in place of `marker` in the columns `kept`; `flagged` have indicators."""

    marker: object
    numeric: bool
    kept: object
    values: object
    flagged: object

    @property
    def width(self):
        return len(self.kept) + len(self.flagged)

    def apply(self, X):
        X = X.astype(float) if self.numeric else X.astype(object)
        # NaN is the one value that differs from itself.
        nan = self.marker != self.marker
        missing = np.asarray(X != X if nan else X == self.marker, dtype=bool)
        filled = np.where(missing[:, self.kept], self.values, X[:, self.kept])
        return np.hstack([filled, missing[:, self.flagged]])


@dataclass
class Category:
    """Rows of `table` for each label, for NaN (`missing`) and for others
    (`unknown`); -1 refuses."""

    labels: object
    table: object
    places: object
    missing: int
    unknown: int

    def codes(self, column):
        """Row of the table for each value."""
        known = {label: code for code, label in enumerate(self.labels.tolist())}
        codes = [
            self.missing if v != v else known.get(v, self.unknown)
            for v in column.tolist()
        ]
        if -1 in codes:
            raise ValueError(
                f"X has the category {column[codes.index(-1)]!r}, which the fit of its "
                "encoder has not seen."
            )
        return np.array(codes, dtype=int)


@dataclass
class Encoded:
    """Columns of categories, each as some numbers."""

    base: object
    columns: tuple

    @property
    def width(self):
        return len(self.base)

    def apply(self, X):
        out = np.repeat(self.base[None], len(X), axis=0)
        for j, column in enumerate(self.columns):
            out[:, column.places] = column.table[column.codes(X[:, j])]
        return out
