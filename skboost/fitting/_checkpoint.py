"""Runs that are kept on disk while they go on, and taken up again."""

import io
import os
import pickle
import warnings
from dataclasses import dataclass, fields, is_dataclass
from numbers import Integral, Real
from time import monotonic

from joblib import hash as digest
from sklearn.base import BaseEstimator

from skboost._pickles import check_version
from skboost._sklearn import registered_callbacks
from skboost._version import __version__
from skboost.boosting import Awaited
from skboost.families import VariationalFamily
from skboost.posterior import is_public, refusing_damage, write_atomically

_WRITER = "skboost.callbacks.Checkpoint"
ADVICE = "Give this fit a path of its own, or remove the file."
# What may change between a fit and the one that goes on with it.
_FREE = {
    "callback", "max_evaluations", "max_iter", "max_time", "n_jobs", "verbose",
    "warm_start",
}  # fmt: skip
# Where the classes are defined that a run is made of: plain data and densities, which
# open no file and call nothing that they are given.
_ROOMS = {
    "_budget", "approximation", "boosting", "conjugate", "families", "fitting",
    "frank_wolfe", "modes", "transforms", "warps",
}  # fmt: skip
# What arrays, and immutable classes of ours, are made by.
_KNOWN_FUNCTIONS = {
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy._core.numeric", "_frombuffer"),
    ("skboost._pickles", "_reconstructed"),
    ("skboost._pickles", "check_version"),
    ("skboost.targets._scale_priors", "ScaleNode"),
}


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written; the fit goes on and the earlier one stays."""


@dataclass
class Checkpoint:
    """Callback that keeps a fit on disk while it runs, and takes it up again.

    It is for densities that take hours. Register it with
    ``estimator.set_callbacks(Checkpoint(path))``, or pass it to
    ``boost_posterior(callback=...)``. Where there is no file the fit begins, and writes
    one every so often. Where there is one, the same call goes on from it, with the
    result that an uninterrupted fit would have given, bit for bit on the same machine.
    The file of a fit that was done gives its result without any further iteration;
    with a larger `max_iter` it goes on.

    It is for `fit` of boosted estimators; their `partial_fit` takes no notice, and
    ``set_callbacks`` of all others refuses it and says how they go on.

    Parameters
    ----------
    path : str or os.PathLike
        Of the file: restricted pickles, in which nothing is looked up but skboost's own
        classes of plain data and NumPy's arrays. One that names anything else is
        refused.
    every : int, default=1
        Iterations from one save to the next. The last one is always saved.
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
    coordinates that its first call found.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_breast_cancer
    >>> from skboost import BoostedBayesianLogisticRegression
    >>> from skboost.callbacks import Checkpoint
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "fit.checkpoint")
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
        """Nothing to do: the run asks for what it needs."""

    def on_fit_task_begin(self, estimator, context):
        """Nothing to do before an iteration."""

    def on_fit_task_end(self, estimator, context):
        """Never asks the fit to stop."""
        return False

    def teardown(self, estimator, context):
        """The file stays."""


def _checkpoints_among(callbacks):
    return [one for one in callbacks if isinstance(one, Checkpoint)]


def refuse_checkpoints(estimator, callbacks, instead):
    """Say that fits of this kind are not kept on disk while they run."""
    if _checkpoints_among(callbacks):
        raise ValueError(
            f"{type(estimator).__name__} takes no Checkpoint, which keeps fits of "
            f"boosted estimators. {instead}"
        )


def keeper_of(estimator):
    """The keeper of the run for an estimator with a `Checkpoint`, or None."""
    checkpoints = _checkpoints_among(registered_callbacks(estimator))
    if len(checkpoints) > 1:
        raise ValueError(f"One Checkpoint is enough for a fit; got {len(checkpoints)}.")
    if not checkpoints:
        return None
    params = estimator.get_params()
    return RunKeeper(checkpoints[0], type(estimator).__name__, params)


class RunKeeper:
    """Keeps one run on disk, which goes on under the same parameters only."""

    def __init__(self, checkpoint, kind, params):
        if not isinstance(params["random_state"], Integral):
            raise ValueError(
                "Checkpoint needs random_state to be an integer: a fit that goes on "
                f"draws the same numbers again; got {params['random_state']!r}."
            )
        self.path, self._checkpoint = checkpoint.path, checkpoint
        described = {k: _described(v) for k, v in params.items() if k not in _FREE}
        self._header, self._waiting = {"kind": kind, **described}, None
        self._due = monotonic() + checkpoint.seconds

    def follow(self, family, ledger):
        """Whose runs it keeps: what their components are, and what counts for them."""
        self._family, self._ledger = family, ledger

    def resumed(self):
        """The run that the file holds, or None; its evaluations are counted on."""
        if not os.path.exists(self.path):
            return None
        with open(self.path, "rb") as file:
            with refusing_damage(self.path, _WRITER):
                version, then = _Unpickler(file).load(), dict(_Unpickler(file).load())
            self._check(version, then)
            with refusing_damage(self.path, _WRITER):
                record, run = _Unpickler(file, self._family).load()
                self._ledger.restore(*record)
        return run

    def keep(self, run):
        """After an iteration; what a run is before its end has been looked into."""
        if run.end is None:
            self._waiting = self._ledger.record(), run
            every = run.n_iter % self._checkpoint.every == 0
            if every and monotonic() >= self._due:
                self.write()

    def write(self):
        """Write what has not been written."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return
        self._due = monotonic() + self._checkpoint.seconds
        # The first parts are numbers and strings: they are checked before the rest.
        written = io.BytesIO()
        for part in (__version__, self._header, waiting):
            _Pickler(written, self._family).dump(part)
        try:
            write_atomically(self.path, lambda file: file.write(written.getvalue()))
        except OSError as error:
            warnings.warn(
                f"The checkpoint {self.path!r} could not be written: {error}. The "
                "earlier one stays where there is one, and the fit goes on.",
                CheckpointWarning,
                stacklevel=2,
            )

    def _check(self, version, then):
        """Refuse the file of another version, or of a fit with other parameters."""
        try:
            check_version(version)
        except pickle.UnpicklingError as error:
            raise ValueError(f"{self.path!r} is of another version. {error}") from error
        for name in sorted(then.keys() | self._header.keys()):
            before, now = then.get(name), self._header.get(name)
            if before != now:
                raise ValueError(
                    f"{self.path!r} is the checkpoint of another fit: {name} was "
                    f"{before} and is {now} now. {ADVICE}"
                )


class _Pickler(pickle.Pickler):
    """Writes a run without its family: a user's class, or one that holds the data."""

    def __init__(self, file, family):
        super().__init__(file, protocol=5)
        self._family = family

    def persistent_id(self, value):
        # A public one may have variants of its class, and is written itself.
        same = type(value) is type(self._family)
        own = same and not (isinstance(value, VariationalFamily) and is_public(value))
        return "family" if own else None

    def reducer_override(self, value):
        """Dataclasses by their fields: caches are left out, constructors check. What is
        awaited is computed now."""
        if isinstance(value, Awaited):
            value = value.result
            if isinstance(value, tuple):
                return type(value), tuple(value)
        if isinstance(value, type) or not is_dataclass(value):
            return NotImplemented
        names = [field.name for field in fields(value) if field.init]
        return type(value), tuple(getattr(value, name) for name in names)


class _Unpickler(pickle.Unpickler):
    """Reads a run with the family of an engine; runs no code but our own classes."""

    def __init__(self, file, family=None):
        super().__init__(file)
        self._family = family

    def persistent_load(self, _):
        return self._family

    def find_class(self, module, name):
        package, _, room = module.partition(".")
        ours = package == "skboost" and room.partition(".")[0] in _ROOMS
        known = (module, name) in _KNOWN_FUNCTIONS
        # Looking a name up imports its module.
        if known or (ours and name.isidentifier()):
            found = super().find_class(module, name)
            if known or (isinstance(found, type) and found.__module__ == module):
                return found
        raise pickle.UnpicklingError(f"a checkpoint holds no {module}.{name}.")


def _described(value):
    """A parameter as text by which it can be compared."""
    if isinstance(value, bool | str | Real | BaseEstimator) or value is None:
        return repr(value)
    try:
        return digest(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        return type(value).__qualname__
