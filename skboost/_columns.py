"""Columns of X as users pass them, and which hold strings or categories."""

import numpy as np
from sklearn.utils.validation import validate_data as validate_any


def column_of(X, i):
    """A column of an array or a data frame, as an array."""
    if hasattr(X, "iloc"):
        column, order = X.iloc[:, i], declared_order(X, i)
        if order and type(order[0]).__name__ == "Interval":
            # Of ``pandas.cut``.
            column = column.cat.rename_categories(str)
        return column.to_numpy()
    if hasattr(X, "columns"):
        return X[X.columns[i]].to_numpy()
    return X[:, i]


def declared_order(X, i):
    """Labels of a column in the order that its type says, None where it says none."""
    if not hasattr(X, "dtypes"):
        return None
    dtype = X.dtypes.iloc[i] if hasattr(X, "iloc") else X.dtypes[i]
    labels = getattr(dtype, "categories", None)
    return labels.to_list() if hasattr(labels, "to_list") else None


def holds_labels(X, i):
    """Whether a column holds strings or categories."""
    if declared_order(X, i) is not None:
        return True
    values = column_of(X, i)
    if values.dtype.kind != "O":
        return values.dtype.kind in "UST"
    return any(isinstance(value, str) for value in values)


def label_columns(X):
    """Positions of the columns of strings and categories."""
    if isinstance(X, list | tuple):
        # Of lists the first row alone: NumPy reads them all later.
        X = np.array([*X[:1]], dtype=object)
    if hasattr(X, "dtypes") and hasattr(X, "columns"):
        kinds = [getattr(dtype, "kind", "O") for dtype in X.dtypes]
    elif isinstance(X, np.ndarray) and X.ndim == 2:
        kinds = X.dtype.kind * X.shape[1]
    else:
        return []
    return [i for i, kind in enumerate(kinds) if kind in "OUST" and holds_labels(X, i)]


def validate_data(estimator, X, *args, advice=None, **kwargs):
    """scikit-learn's check, after one that refuses strings and categories by name.

    Without it strings such as "1" would be numbers in silence. Where `advice` is None,
    they are to be encoded.
    """
    labels = label_columns(X)
    if labels:
        some = [X.columns[i] if hasattr(X, "columns") else i for i in labels]
        names = ", ".join(map(repr, some[:8])) + ", ..." * (len(some) > 8)
        encode = (
            "Encode them before, for example with sklearn.compose.ColumnTransformer(["
            f"('labels', OneHotEncoder(drop='first'), {some[:8]!r})], "
            "remainder='passthrough')."
        )
        raise ValueError(
            "X must have numbers in all columns; got strings or categories in "
            f"{names}. {advice or encode}"
        )
    return validate_any(estimator, X, *args, **kwargs)
