"""Runs that are kept on disk while they go on, and taken up again."""

import hashlib
import io
import os
import pickle
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from numbers import Integral, Real
from threading import Lock
from time import monotonic

import numpy as np
from sklearn.base import BaseEstimator

from skboost._pickles import check_version
from skboost._sklearn import registered_callbacks
from skboost.families import VariationalFamily
from skboost.posterior import (
    is_public,
    reading_archive,
    refusing_damage,
    write_archive,
)

_FORMAT, _VERSION, _WRITER = "skboost-checkpoint", 1, "skboost.callbacks.Checkpoint"
# What a pickle writes without looking up a name, and classes.
_PLAIN = (type(None), bool, int, float, str, tuple, list, dict, type)


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written; the fit goes on and the earlier one stays."""


@dataclass
class Checkpoint:
    """Callback that keeps a fit on disk while it runs, and takes it up again.

    Register it with ``estimator.set_callbacks(Checkpoint(path))``, or pass it to
    ``boost_posterior(callback=...)``. Where there is no file the fit begins, and writes
    one every so often. Where there is one, the same call goes on from it, with the
    result that an uninterrupted fit would have given, bit for bit on the same machine.
    The file of a fit that was done gives its result without any further iteration;
    with a larger `max_iter` it goes on.

    It is for `fit` of the boosted and SVI estimators; `partial_fit` takes no notice.

    Parameters
    ----------
    path : str or os.PathLike
        Of the file, an npz archive of plain arrays and one restricted pickle for each
        run, in which nothing is looked up but skboost's own classes of plain data: a
        file runs no code but theirs, and one that names anything else is refused.
    every : int, default=1
        Iterations (epochs) from one save to the next. The last one is always saved.
    seconds : float, default=0.0
        No save follows another sooner; the last iteration is saved all the same.

    Raises
    ------
    ValueError
        When the fit begins: if the file is damaged or no checkpoint, is of another
        version of skboost, or holds a fit with other parameters or data; or if
        `random_state` is no integer, without which no fit can be gone on with.

    Warns
    -----
    CheckpointWarning
        If a save fails, as on a full disk. The earlier file stays, the fit goes on.

    Notes
    -----
    A file is replaced only when the new one is complete. What may change from one call
    to the next is `max_iter`, `max_time`, `max_evaluations`, `n_jobs` and how much is
    told; limits of time are of each call. A run with ``warp="auto"`` keeps the
    coordinates that its first call found; where that declined a warp, the evaluations
    of its second component count once more.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_breast_cancer
    >>> from skboost import BoostedBayesianLogisticRegression
    >>> from skboost.callbacks import Checkpoint
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "fit.npz")
    >>> model = BoostedBayesianLogisticRegression(max_iter=2, random_state=0)
    >>> _ = model.set_callbacks(Checkpoint(path)).fit(X[:, :3] / 100, y)
    >>> os.path.exists(path)
    True
    """

    path: object
    every: int = 1
    seconds: float = 0.0

    def __post_init__(self):
        if not (isinstance(self.every, Integral) and self.every >= 1):
            raise ValueError(f"every must be a positive integer; got {self.every!r}.")
        if not (isinstance(self.seconds, Real) and self.seconds >= 0.0):
            raise ValueError(f"seconds must not be negative; got {self.seconds!r}.")
        self.path = os.fspath(self.path)

    def setup(self, estimator, context):
        """Nothing to do: the run loop asks for what it needs."""

    def on_fit_task_begin(self, estimator, context):
        """Nothing to do before an iteration."""

    def on_fit_task_end(self, estimator, context):
        """Never asks the fit to stop."""
        return False

    def teardown(self, estimator, context):
        """The file stays."""


def session_of(estimator):
    """The session of the `Checkpoint` among an estimator's callbacks, or None."""
    callbacks = registered_callbacks(estimator)
    found = [one for one in callbacks if isinstance(one, Checkpoint)]
    if not found:
        return None
    if len(found) > 1:
        raise ValueError(f"One Checkpoint is enough for a fit; got {len(found)}.")
    return Session(found[0], type(estimator).__name__, estimator.get_params())


class Session:
    """One fit and its file.

    Parameters
    ----------
    checkpoint : Checkpoint
    kind : str
        What is fitted.
    params : dict
        Its parameters, ``random_state`` among them.
    """

    def __init__(self, checkpoint, kind, params):
        if not isinstance(params["random_state"], Integral):
            raise ValueError(
                "Checkpoint needs random_state to be an integer: a fit that goes on "
                f"draws the same numbers again; got {params['random_state']!r}."
            )
        self._checkpoint, self._lock = checkpoint, Lock()
        self.path = checkpoint.path
        # What may change between a fit and the one that goes on with it.
        free = {
            "callback", "max_evaluations", "max_iter", "max_time", "n_jobs", "verbose",
            "verbose_interval", "warm_start",
        }  # fmt: skip
        described = {k: _described(v) for k, v in params.items() if k not in free}
        self._params = {"kind": kind, **described}
        self._saved, self._due = {}, monotonic() + checkpoint.seconds
        self._old = self._read() if os.path.exists(self.path) else {}

    def __reduce__(self):
        raise TypeError(
            "Checkpoint writes from one process: run the fit with threads, as with "
            "joblib.parallel_config(backend='threading')."
        )

    # --- the file

    def old(self, key):
        """Counts and arrays that the file holds of a run, which stay in it, or None."""
        if key in self._old:
            self._saved[key] = self._old[key]
        return self._old.get(key)

    def due(self, run):
        """Whether to write a run that goes on."""
        return not run.n_iter % self._checkpoint.every and monotonic() >= self._due

    def _read(self):
        path = self.path
        with reading_archive(path, _FORMAT, _VERSION, _WRITER) as (header, arrays):
            then = dict(header["params"])
            runs = {key: (count, {}) for key, count in dict(header["runs"]).items()}
            for name, array in arrays.items():
                _, key, own = name.split("_", 2)
                runs[key][1][own] = array
        try:
            check_version(header["skboost_version"])
        except pickle.UnpicklingError as error:
            raise ValueError(f"{path!r} is of another version. {error}") from error
        changed = sorted(
            name
            for name in then.keys() | self._params.keys()
            if then.get(name) != self._params.get(name)
        )
        if changed:
            name = changed[0]
            raise ValueError(
                f"{path!r} is the checkpoint of another fit: {name} was "
                f"{then.get(name)} and is {self._params.get(name)} now. Give this fit "
                "a path of its own, or remove the file."
            )
        return runs

    def put(self, key, counts, arrays):
        """Keep a run under a name, and write the file."""
        with self._lock:
            self._saved[key] = counts, arrays
            self._due = monotonic() + self._checkpoint.seconds
            self._write()

    def _write(self):
        header = {
            "params": self._params,
            "runs": {key: counts for key, (counts, _) in self._saved.items()},
        }
        arrays = {
            f"run_{key}_{name}": array
            for key, (_, own) in self._saved.items()
            for name, array in own.items()
        }
        path = self.path
        try:
            write_archive(path, _FORMAT, _VERSION, header, arrays)
        except OSError as error:
            warnings.warn(
                f"The checkpoint {path!r} could not be written: {error}. The earlier "
                "one stays where there is one, and the fit goes on.",
                CheckpointWarning,
                stacklevel=2,
            )


class RunKeeper:
    """What the run loop tells of one of a fit's runs."""

    def __init__(self, session, key="0"):
        self._session, self._key = session, key
        self._waiting = self._found = None

    def found(self, prepared):
        """The run that the file holds, or None; nothing is prepared yet."""
        old = self._session.old(self._key)
        if old is not None:
            self._counts, arrays = old
            with refusing_damage(self._session.path, _WRITER):
                self._found = unpickled(arrays, _family(prepared))
        return self._found

    @contextmanager
    def keeping(self, prepared, run):
        """What is called with the run after every iteration.

        It is entered before the first iteration, which may go on with `run`. Where it
        is left by an error, the last whole iteration is written too.
        """
        self._prepared = prepared
        if self._found is not None and run is self._found:
            _check_same_data(self._session.path, prepared, run.state)
            if prepared.target is not None:
                prepared.target.ledger.restore(*self._counts)
        try:
            yield self._keep
        finally:
            self._write()

    def _keep(self, run):
        # What a run is before its end has been looked into.
        if run.end is None:
            target = self._prepared.target
            counts = [] if target is None else target.ledger.record()
            self._waiting = run, counts
            if self._session.due(run):
                self._write()

    def _write(self):
        """Write what has not been written."""
        if self._waiting is not None:
            run, counts = self._waiting
            arrays = pickled(run, _family(self._prepared))
            self._session.put(self._key, counts, arrays)
            self._waiting = None


def _family(prepared):
    """The family of the components; None where there are none."""
    if prepared.target is None:
        return None
    return prepared.engine.proposer.family_of(prepared.target)


class _Pickler(pickle.Pickler):
    """Writes skboost's own objects; arrays go to a list beside the pickle."""

    def __init__(self, file, family, arrays):
        super().__init__(file, protocol=5)
        self._family, self._arrays, self._seen = family, arrays, {}

    def persistent_id(self, value):
        kind = type(value)
        if isinstance(value, np.ndarray | np.generic):
            return self._array(value)
        if isinstance(value, VariationalFamily) and is_public(value):
            return None
        # The engine's own family, a user's class or one with the data in it, is taken
        # from the engine again.
        if kind is type(self._family):
            return "family"
        if kind in _PLAIN or _is_ours(kind.__module__):
            return None
        raise TypeError(f"a checkpoint can not hold a {kind.__qualname__}.")

    def reducer_override(self, value):
        """Dataclasses by their fields: caches are left out, constructors check."""
        if isinstance(value, type) or not is_dataclass(value):
            return NotImplemented
        # What is computed again from the rest, to the same bits.
        derived = ("ahead",)
        held = vars(value) | dict.fromkeys(derived)
        return type(value), tuple(held[field.name] for field in fields(value))

    def _array(self, value):
        """Position of an array, or of a number of NumPy; those shared are kept once."""
        if id(value) not in self._seen:
            if value.dtype.kind not in "biufcU":
                raise TypeError(f"a checkpoint can not hold arrays of {value.dtype}.")
            # Alive in the list, so that no other object takes its identity.
            self._seen[id(value)] = len(self._arrays)
            self._arrays.append(value)
        return self._seen[id(value)], isinstance(value, np.generic)


class _Unpickler(pickle.Unpickler):
    """Reads what `_Pickler` wrote, and refuses every other name."""

    def __init__(self, file, family, arrays):
        super().__init__(file)
        self._family, self._arrays = family, arrays

    def persistent_load(self, found):
        if found == "family":
            return self._family
        position, is_number = found
        array = self._arrays[f"array_{position}"]
        return array[()] if is_number else array

    def find_class(self, module, name):
        if _is_ours(module) and name.isidentifier():
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise pickle.UnpicklingError(f"a checkpoint holds no {module}.{name}.")


def _is_ours(module):
    """Whether the classes of a run may be defined in a module."""
    package, _, rest = module.partition(".")
    # Where the classes are defined that a run is made of: plain data and densities,
    # which open no file and call nothing that they are given.
    rooms = {
        "_callbacks", "approximation", "boosting", "conjugate", "families", "modes",
        "surrogates", "svi", "transforms", "warps",
    }  # fmt: skip
    return package == "skboost" and rest.partition(".")[0] in rooms


def pickled(run, family):
    """A run as arrays: one holds the pickle, and others what is an array in it.

    Objects that several places share are shared again when they are read, so that a
    run that goes on asks the same questions of the same objects.
    """
    file, arrays = io.BytesIO(), []
    _Pickler(file, family, arrays).dump(run)
    found = {f"array_{k}": np.asarray(array) for k, array in enumerate(arrays)}
    return found | {"pickle": np.frombuffer(file.getvalue(), np.uint8)}


def unpickled(arrays, family):
    """The run that `pickled` made the arrays of.

    Raises
    ------
    UnpicklingError
        Where the pickle names anything but skboost's own classes of plain data.
    """
    file = io.BytesIO(arrays["pickle"].tobytes())
    return _Unpickler(file, family, arrays).load()


def agree(recorded, now):
    """Whether log joint densities that a state holds are those of now."""
    # Another machine rounds in another way.
    return np.allclose(recorded, now, rtol=1e-8, atol=1e-8, equal_nan=True)


def _check_same_data(path, prepared, state):
    """Refuse a state that is of another target."""
    try:
        same, reason = agree(*prepared.engine.recomputed(*prepared.at, state)), None
    except (ValueError, KeyError, IndexError) as error:
        same, reason = False, error
    if not same:
        raise ValueError(
            f"{path!r} is the checkpoint of a fit to other data: what it recorded is "
            "not what is computed now. Give this fit a path of its own, or remove the "
            "file."
        ) from reason


def _described(value):
    """A parameter as text by which it can be compared."""
    if isinstance(value, bool | str | Real | BaseEstimator) or value is None:
        return repr(value)
    if isinstance(value, tuple | list | dict | range):
        try:
            return repr(value) if len(repr(value)) < 200 else _digest(repr(value))
        except ValueError:
            return type(value).__qualname__
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        if array.dtype.kind in "biufU":
            return _digest(repr(array.tolist()))
    name = getattr(value, "__qualname__", None)
    return name or type(value).__qualname__


def _digest(text):
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]
