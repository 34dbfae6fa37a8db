"""New entries taken in by a fitted factorisation, whose data are not needed again."""

import numpy as np

from skboost._callbacks import run
from skboost.conjugate import MatrixFactorizationModel, ObservedEntries
from skboost.svi import ConstantRate, NaturalGradient


def with_rows(model, natural, n_rows):
    """Natural parameters with further rows, which have the prior's distribution."""
    own, n = natural["rows"], len(natural["rows"]["first"])
    if n_rows <= n:
        return natural
    shared, _ = model.scales["rows"].expected(natural)
    new = model.rows.start(np.zeros((n_rows - n, model.rows.dim)), 1.0 / shared)
    rows = {key: np.concatenate([own[key], new[key]]) for key in own}
    return natural | {"rows": rows}


def taken_in(model, natural, entries, limits):
    """Natural parameters after new entries, and the bound on what these say.

    The posterior so far is the prior of the new entries (streaming variational Bayes,
    Broderick et al. 2013): coordinate ascent goes over them and over the rows and
    columns that they touch. The scales of the factors stay.

    Parameters
    ----------
    model : MatrixFactorizationModel
    natural : dict
        With all rows that the entries have.
    entries : Entries
    limits : SVILimits

    Returns
    -------
    natural : dict
    run : Run
        Its last state has the bound: of the log evidence of the new entries given those
        before, nats.
    """
    touched, parts = {}, {}
    for name, positions in (("rows", entries.rows), ("columns", entries.columns)):
        touched[name], parts[name] = np.unique(positions, return_inverse=True)
    shape = tuple(len(index) for index in touched.values())
    own = {n: _some(natural[n], index) for n, index in touched.items()}
    priors = own | {name: natural[name] for name in natural if name == "noise"}
    inner = MatrixFactorizationModel(
        shape,
        model.n_components,
        None if model.noise.factors else model.noise.scale,
        {n: s.expected(natural)[0] ** -0.5 for n, s in model.scales.items()},
        biases=model.biases,
        dtype=model.dtype,
        priors=priors,
    )
    kind = entries.rows.dtype
    parts = [part.astype(kind) for part in parts.values()]
    renumbered = type(entries)(*parts, entries.values, shape)
    engine = NaturalGradient(inner, ObservedEntries(renumbered), priors, ConstantRate())
    done = run(engine, limits)
    found = dict(natural)
    for name, value in done.state.natural.items():
        index = touched.get(name)
        found[name] = value if index is None else _put(natural[name], index, value)
    return found, done


def _some(own, index):
    return {key: value[index] for key, value in own.items()}


def _put(own, index, new):
    found = {key: value.copy() for key, value in own.items()}
    for key, value in found.items():
        value[index] = new[key]
    return found
