"""Posteriors on disk: npz archives of plain arrays and JSON, never pickles."""

import json
import os
from contextlib import contextmanager, suppress
from uuid import uuid4

import numpy as np

import skboost.families as families
from skboost._version import __version__
from skboost.approximation import Mixture
from skboost.orbits import KnownOrbits, OrbitMixture
from skboost.transforms import Constraints
from skboost.warps import WarpedConstraints

FORMAT = "skboost-posterior"
# Version 2 adds constraints, version 3 warps, version 4 orbits. A file without
# any is still written as the version that did without.
FORMAT_VERSION = 4


# --- archives


def write_archive(path, file_format, version, header, arrays):
    """Write a header that JSON can hold, and arrays, to exactly `path`, as a whole."""
    header = {
        "format": file_format,
        "format_version": version,
        "skboost_version": __version__,
        **header,
    }
    # NumPy's numbers are no numbers to JSON.
    text = json.dumps(header, default=lambda number: number.item())
    write_atomically(path, lambda file: np.savez(file, header=np.array(text), **arrays))


@contextmanager
def refusing_damage(path, writer):
    """Context in which whatever a damaged or foreign file leads to is a ValueError.

    It says that `path` should be a file by `writer`.
    """
    # Whether there is such a file is not a question of its format.
    with open(path, "rb"):
        pass
    try:
        yield
    except _Refusal as refusal:
        # Tracebacks name a class that users know.
        raise ValueError(str(refusal)) from refusal.__cause__
    except Exception as error:
        raise ValueError(
            f"path must be a file written by {writer}; got {str(path)!r}, which is "
            "none."
        ) from error


class _Refusal(ValueError):
    """A sentence about a file that is passed on as it is."""


@contextmanager
def reading_archive(path, file_format, version, writer):
    """Context with the header and the arrays of a file that `write_archive` wrote.

    Other files, and later versions than `version`, are ValueErrors; see
    `refusing_damage`.
    """
    with refusing_damage(path, writer):
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(str(arrays.pop("header")))
        if header["format"] != file_format:
            raise ValueError(f"The format is {header['format']!r}.")
        if header["format_version"] > version:
            raise _Refusal(
                f"path: {str(path)!r} was written by skboost "
                f"{header['skboost_version']} in format {header['format_version']}; "
                f"this version reads formats up to {version}. Update skboost."
            )
        if header["format_version"] not in range(1, version + 1):
            raise ValueError(f"The version is {header['format_version']!r}.")
        for name, array in arrays.items():
            if array.dtype.kind not in "biufU":
                raise _Refusal(f"path holds no real numbers in the array {name!r}.")
            needed = name.startswith(("params", "weights", "orbit", "model"))
            if needed and not np.all(np.isfinite(array)):
                raise _Refusal(f"path holds numbers in {name!r} that are not finite.")
        yield header, arrays


# --- posteriors


def save_mixture(path, mixture, names=None, constraints=None):
    """Write a mixture, names and constraints to exactly `path` (an npz archive)."""
    header = {
        "names": None if names is None else list(names),
        "families": [family_record(each.family) for each in mixture.components],
    }
    if constraints is not None:
        header["constraints"] = constraints_record(constraints)
    arrays = {f"params_{k}": c.params for k, c in enumerate(mixture.components)}
    version = 1 if constraints is None else 2 if constraints.warp is None else 3
    version = 4 if mixture.orbiting else version
    arrays |= orbit_arrays(mixture) | {"weights": mixture.weights}
    write_archive(path, FORMAT, version, header, arrays)


def loaded_mixture(header, arrays):
    """The mixture, the names and the constraints that `save_mixture` wrote."""
    components = _components(header["families"], arrays)
    mixture = with_orbits(Mixture(components, arrays["weights"]), arrays)
    return mixture, header["names"], constraints_from(header.get("constraints"))


def orbit_arrays(mixture):
    """Known orbits of a mixture as arrays by name; none where it has none."""
    if not mixture.orbiting:
        return {}
    return {
        f"orbit_{name}_{k}": array
        for k, known in enumerate(mixture.orbits)
        for name, array in known._asdict().items()
    }


def with_orbits(mixture, arrays):
    """A mixture with the orbits of `orbit_arrays`, where there are any."""
    if "skew_shift_0" in arrays:
        raise _Refusal(
            "path holds skewing weights, which no published version wrote. Fit again."
        )
    if "orbit_steps_0" not in arrays:
        return mixture
    orbits = tuple(
        KnownOrbits(*(arrays[f"orbit_{name}_{k}"] for name in KnownOrbits._fields))
        for k in range(mixture.n_components)
    )
    for known in orbits:
        (n, order), dim = known.shares.shape, mixture.dim
        sums = known.shares.sum(axis=1, dtype=float)
        fits = known.steps.shape == (dim,) and known.whitened.shape == (n, dim)
        if not (fits and n and order > 1 and order & (order - 1) == 0):
            raise _Refusal("path holds orbits whose arrays do not fit together.")
        if known.shares.min() < 0.0 or np.abs(sums - 1.0).max() > 1e-3:
            raise _Refusal("path holds orbits whose shares are no probabilities.")
    return OrbitMixture(mixture.components, mixture.weights, orbits)


def _components(records, arrays):
    """Components of the families of records, from arrays ``params_0``, ``params_1``."""
    return [
        families.Component(family_from(record), arrays[f"params_{k}"])
        for k, record in enumerate(records)
    ]


def constraints_record(constraints):
    """Constraints as JSON can hold them; None stays None."""
    if constraints is None:
        return None
    warped = constraints.warp is not None
    return {"dim": constraints.dim, "parts": constraints.record(), "warped": warped}


def constraints_from(record):
    """Constraints of a `constraints_record`; None stays None."""
    if record is None:
        return None
    # Files before version 3 have no warps.
    kind = WarpedConstraints if record.get("warped") else Constraints
    return kind.from_record(record["parts"], record["dim"])


def pack_mixtures(mixtures):
    """Header and arrays of several mixtures; a component they share is kept once."""
    index, records, arrays, members = {}, [], {}, []
    for m, mixture in enumerate(mixtures):
        own = []
        for component in mixture.components:
            record = family_record(component.family)
            key = (json.dumps(record), component.params.tobytes())
            if key not in index:
                index[key] = len(records)
                arrays[f"params_{len(records)}"] = component.params
                records.append(record)
            own.append(index[key])
        members.append(own)
        arrays[f"weights_{m}"] = mixture.weights
    return {"families": records, "mixtures": members}, arrays


def unpack_mixtures(header, arrays):
    """The mixtures that `pack_mixtures` packed."""
    components = _components(header["families"], arrays)
    return [
        Mixture(tuple(components[k] for k in own), arrays[f"weights_{m}"])
        for m, own in enumerate(header["mixtures"])
    ]


def is_public(family):
    """Whether a family is one that files name."""
    return type(family) in vars(families).values()


def family_record(family):
    """A family as JSON can hold it."""
    if not is_public(family):
        raise ValueError(
            "save needs components of the families in skboost.families; got "
            f"{getattr(family, 'label', type(family).__qualname__)}. Pickle the "
            "posterior instead."
        )
    return {"class": type(family).__name__, "params": family.get_params(deep=False)}


def family_from(record):
    """The family of a `family_record`."""
    family, known = vars(families).get(record["class"]), families.VariationalFamily
    if not (isinstance(family, type) and issubclass(family, known | families.Gaussian)):
        raise _Refusal(
            f"path holds components of the family {record['class']!r}, which this "
            "version of skboost does not have. Update skboost."
        )
    return family(**record["params"])


def write_atomically(path, write):
    """Write a file so that whoever looks finds the old one whole or the new one.

    A temporary file in the same folder is forced to the disk and takes the place of
    `path`; where that fails nothing has changed.
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
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if getattr(error, "filename", None) == temporary:
            error.filename = path
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
