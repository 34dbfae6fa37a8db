"""Posteriors as tables and in the formats of other packages."""

import numpy as np


def check_names(names, dim):
    """Names as a tuple of distinct strings, one per coordinate; None stays None."""
    if names is None:
        return None
    names = tuple(map(str, names))
    if len(names) != dim:
        raise ValueError(
            f"names must hold one name for each coordinate, {dim} in all; got "
            f"{len(names)}."
        )
    if len(set(names)) != dim:
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"names must be distinct; got {repeated} more than once.")
    return names


def summary_table(columns, names):
    """One row per coordinate: a DataFrame, or a structured array without pandas; names
    of None are ``theta[0]``, ``theta[1]`` and so on."""
    if names is None:
        dim = len(next(iter(columns.values())))
        names = [f"theta[{i}]" for i in range(dim)]
    labels = np.array(names, dtype=str)
    table = plain_table({"name": labels, **columns})
    return table.set_index("name") if hasattr(table, "set_index") else table


def plain_table(columns):
    """Columns by name as a DataFrame, or a structured array without pandas."""
    try:
        import pandas as pd
    except ImportError:
        arrays = [np.array(column) for column in columns.values()]
        return np.rec.fromarrays(arrays, names=list(columns))
    return pd.DataFrame(columns)


def arviz_groups(groups, n_chains, **names):
    """ArviZ data object of groups by name, dicts of independent draws that are split
    into chains, and of data as they are; `names` are ``dims`` and ``coords``."""
    try:
        import arviz
    except ImportError as error:
        raise ImportError(
            "to_arviz needs ArviZ, which is not installed. Install it with "
            "`pip install arviz`."
        ) from error
    groups = {
        group: draws
        if group.endswith("data")
        else {
            name: values.reshape(n_chains, -1, *values.shape[1:])
            for name, values in draws.items()
        }
        for group, draws in groups.items()
    }
    # ArviZ 1.0 takes all groups in one dictionary, earlier ones a keyword each.
    if int(arviz.__version__.split(".")[0]) >= 1:
        return arviz.from_dict(groups, **names)
    return arviz.from_dict(**groups, **names)
