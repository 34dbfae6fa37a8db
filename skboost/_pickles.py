"""Pickles belong to the version that wrote them; others are refused in one sentence.

A pickle holds names of private classes and their fields, which move from one version to
the next. Archives (``save`` and ``load`` of posteriors and results) are what lasts.
"""

from pickle import UnpicklingError

from skboost._version import __version__

# The version that noted itself in estimators only, and there behind all else.
_FIRST = "0.1.0"


def check_version(written):
    """The version that wrote a pickle; any but this one is an UnpicklingError."""
    if written == __version__:
        return written
    raise UnpicklingError(
        f"This pickle was written by skboost {written} and cannot be read by skboost "
        f"{__version__}: fit again, or keep posteriors with their save method in the "
        "version that wrote it, for load reads the archives of earlier versions."
    )


class WrittenBy(str):
    """A version that is checked as soon as a pickle's reader comes to it."""

    def __reduce__(self):
        return check_version, (str(self),)


def reconstruction(cls, *arguments):
    """What ``__reduce__`` of an immutable class returns, the version first."""
    return _reconstructed, (WrittenBy(__version__), cls, *arguments)


def _reconstructed(written, cls, *arguments):
    return cls(*arguments)


def written(state):
    """The state of an object for a pickle, the version first.

    Whatever stands behind the version may name classes that another version lacks, so
    it is checked while the rest is still unread.
    """
    return {"_skboost_version": WrittenBy(__version__), **state}


def read(state):
    """The state in a pickle, after a check of its version."""
    state = dict(state)
    check_version(state.pop("_skboost_version", _FIRST))
    return state


class VersionedPickle:
    """Mixin whose pickles are refused by other versions, before all else is read."""

    def __getstate__(self):
        return written(super().__getstate__())

    def __setstate__(self, state):
        vars(self).update(read(state))
