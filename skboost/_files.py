"""Files that are there whole or not at all."""

import os
from contextlib import suppress
from uuid import uuid4


def write_atomically(path, write):
    """Write a file so that whoever looks finds the old one whole or the new one.

    What is written goes to a temporary file in the same folder, is forced to the disk,
    and only then takes the place of `path`. Where any of it fails, a full disk for
    one, the file that was there before is still there, and nothing beside it.

    Parameters
    ----------
    path : str or os.PathLike
    write : callable
        Called with the open binary file.

    Raises
    ------
    OSError
        As the operating system has it.
    """
    # A link stays one: it is what it points to that is written.
    path = os.path.realpath(os.fspath(path))
    if os.path.exists(path) and not os.path.isfile(path):
        # A pipe or a device has no earlier content to keep.
        with open(path, "wb") as file:
            write(file)
        return
    temporary = f"{path}.{uuid4().hex}.part"
    try:
        with open(temporary, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(os.path.dirname(path))


def _sync_folder(folder):
    """Make the new name last, where the system can open folders."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
