"""Posteriors as tables and in the formats of other packages."""

import numpy as np


def check_names(names, dim):
    """Names as a tuple of distinct strings, one per coordinate; None stays None."""
    if names is None:
        return None
    names = tuple(map(str, names))
    if len(names) != dim:
        raise ValueError(
            f"names must hold one name for each of the {dim} coordinates; got "
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
    try:
        import pandas as pd
    except ImportError:
        table = {"name": labels, **columns}
        return np.rec.fromarrays(list(table.values()), names=list(table))
    return pd.DataFrame(columns, index=pd.Index(labels, name="name"))


def arviz_groups(draws, n_chains, **names):
    """ArviZ data object of a dict of independent draws, split into chains; `names` are
    ``dims`` and ``coords``, as ArviZ has them."""
    try:
        import arviz
    except ImportError as error:
        raise ImportError(
            "to_arviz needs ArviZ, which is not installed. Install it with "
            "`pip install arviz`."
        ) from error
    group = {
        name: values.reshape(n_chains, -1, *values.shape[1:])
        for name, values in draws.items()
    }
    # ArviZ 1.0 takes all groups in one dictionary, earlier ones a keyword each.
    if int(arviz.__version__.split(".")[0]) >= 1:
        return arviz.from_dict({"posterior": group}, **names)
    return arviz.from_dict(posterior=group, **names)
