"""Mixtures on disk: npz archives of plain arrays and JSON, never pickles."""

import json
import zipfile

import numpy as np

import skboost.families as families
from skboost.posterior._mixture import Mixture

FORMAT = "skboost-posterior"
FORMAT_VERSION = 1


def _package_version():
    from skboost import __version__

    return __version__


def _family_record(family):
    name = type(family).__name__
    if getattr(families, name, None) is not type(family):
        raise ValueError(
            "save needs components of the families in skboost.families; got "
            f"{type(family).__qualname__}. Pickle the posterior instead."
        )
    return {"class": name, "params": family.get_params(deep=False)}


def save_mixture(path, mixture, names=None):
    """Write a mixture to exactly `path` (an npz archive)."""
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "skboost_version": _package_version(),
        "names": None if names is None else list(names),
        "families": [_family_record(family) for family, _ in mixture.components],
    }
    arrays = {f"params_{k}": p for k, (_, p) in enumerate(mixture.components)}
    with open(path, "wb") as file:
        np.savez(
            file,
            header=np.array(json.dumps(header)),
            weights=mixture.weights,
            **arrays,
        )


def load_mixture(path):
    """The mixture and the names that `save_mixture` wrote.

    Raises
    ------
    ValueError
        If the file is no archive of this format, or of a later version of it.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(str(arrays["header"]))
    except (
        ValueError,
        KeyError,
        AttributeError,
        EOFError,
        zipfile.BadZipFile,
    ) as error:
        raise ValueError(_foreign(path)) from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(_foreign(path))
    if header["format_version"] > FORMAT_VERSION:
        raise ValueError(
            f"path: {str(path)!r} was written by skboost {header['skboost_version']} "
            f"in format {header['format_version']}; this version reads formats up to "
            f"{FORMAT_VERSION}. Update skboost."
        )
    components = tuple(
        (_family(record), arrays[f"params_{k}"])
        for k, record in enumerate(header["families"])
    )
    return Mixture(components, arrays["weights"]), header["names"]


def _family(record):
    family = getattr(families, record["class"], None)
    if not (
        isinstance(family, type) and issubclass(family, families.VariationalFamily)
    ):
        raise ValueError(
            f"path holds components of the family {record['class']!r}, which this "
            "version of skboost does not have. Update skboost."
        )
    return family(**record["params"])


def _foreign(path):
    return (
        f"path must be a file written by MixturePosterior.save; got {str(path)!r}, "
        "which is none."
    )
