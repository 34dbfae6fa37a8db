"""Damaged archives are refused with a ValueError, and reading them runs no code."""

import io
import json
import os
import pickle
import zipfile

import numpy as np
import pytest

from skboost import BoostingResult, MixturePosterior, boost_posterior
from skboost.families import Gaussian
from skboost.mixture import ConjugateMixturePosterior
from skboost.posterior import Mixture, TransformedPosterior, write_atomically
from skboost.strategies import GreedySearch
from skboost.transforms import Constraints

N_FILES = 1000


def bump(theta):
    return -0.5 * np.sum((theta - 1.0) ** 2, axis=-1)


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Paths of small archives, and what loads each; the last one has orbits."""
    folder, family = tmp_path_factory.mktemp("archives"), Gaussian("full")
    parts = [(family, np.array([k, 0.1, 0.0, 0.2, -0.1])) for k in (-1.0, 1.0)]
    plain = MixturePosterior(Mixture(tuple(parts), [0.4, 0.6]), ["a", "b"])
    settings = {"max_iter": 1, "random_state": 0}
    result = boost_posterior(
        bump, 2, gradient=lambda t: 1.0 - t, search=GreedySearch(8), **settings
    )
    orbiting = boost_posterior(
        lambda t: np.sum(3.0 * t - np.exp(t), axis=1), 2,
        gradient=lambda t: 3.0 - np.exp(t), orbit=4, **settings,
    )  # fmt: skip
    saved = {
        "plain": plain,
        "positive": TransformedPosterior(plain.mixture, Constraints("positive", dim=2)),
        "result": result,
        "orbits": orbiting.posterior,
    }
    for name, one in saved.items():
        one.save(folder / f"{name}.npz")
    return [(folder / f"{name}.npz", type(one).load) for name, one in saved.items()]


def damaged(data, rng):
    """The bytes of a file with one damage."""
    data = bytearray(data)
    at = int(rng.integers(len(data)))
    kind = rng.integers(5)
    if kind == 0:
        return bytes(data[:at])
    if kind == 1:
        data[at] ^= 1 << int(rng.integers(8))
    elif kind == 2:
        data[at : at + 16] = rng.bytes(min(16, len(data) - at))
    elif kind == 3:
        del data[at : at + int(rng.integers(1, 64))]
    else:
        data[at:at] = rng.bytes(int(rng.integers(1, 64)))
    return bytes(data)


def mean_of(loaded):
    return getattr(loaded, "posterior", loaded).mean()


@pytest.mark.slow
def test_a_thousand_corrupted_files(archives, tmp_path):
    rng, refused = np.random.default_rng(0), 0
    for k in range(N_FILES):
        path, load = archives[k % 3]
        path_now = tmp_path / "damaged.npz"
        path_now.write_bytes(damaged(path.read_bytes(), rng))
        try:
            loaded = load(path_now)
        except ValueError as error:
            assert "path" in str(error)
            refused += 1
        else:
            # Bytes that say nothing, such as times: what is read is what was written.
            np.testing.assert_array_equal(mean_of(loaded), mean_of(load(path)))
    assert refused > 0.8 * N_FILES


# --- archives whose check sums are right and whose content is not


def content(path):
    with np.load(path) as archive:
        arrays = dict(archive)
    return json.loads(str(arrays.pop("header"))), arrays


def changed(value, rng):
    """A record with one thing in it replaced, added or taken away."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = list(value)[rng.integers(len(value))]
        if rng.random() < 0.2:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: changed(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        k = int(rng.integers(len(value)))
        return [*value[:k], changed(value[k], rng), *value[k + 1 :]]
    others = [None, -1, 10**30, 1e308, "os.system", [], {}, [[1]], {"class": "os"}]
    return others[rng.integers(len(others))]


def changed_arrays(arrays, rng):
    name = list(arrays)[rng.integers(len(arrays))]
    value = arrays[name]
    others = [
        value[:-1], value[..., None], np.full_like(value, np.nan), value.astype(str),
        np.zeros((0, 3)), -value, np.float64(1.0), value.astype(complex),
    ]  # fmt: skip
    kind = rng.integers(len(others) + 1)
    if kind == len(others):
        return {k: v for k, v in arrays.items() if k != name}
    return {**arrays, name: others[kind]}


@pytest.mark.slow
def test_a_thousand_files_with_wrong_content(archives, tmp_path):
    rng, refused = np.random.default_rng(1), 0
    written = [(*content(path), load) for path, load in archives[:3]]
    for k in range(N_FILES):
        header, arrays, load = written[k % 3]
        if rng.random() < 0.5:
            header = changed(header, rng)
        else:
            arrays = changed_arrays(arrays, rng)
        path = tmp_path / "changed.npz"
        np.savez(path, header=np.array(json.dumps(header)), **arrays)
        try:
            load(path)
        except ValueError as error:
            assert str(error)
            refused += 1
    assert refused > 0.3 * N_FILES


WRONG = {
    "complex": lambda a: a.astype(complex),
    "nan": lambda a: np.full(a.shape, np.nan),
    "infinite": lambda a: np.full(a.shape, np.inf),
    "short": lambda a: a[:-1],
    "strings": lambda a: a.astype(str),
    "another axis": lambda a: a[..., None],
    "negative": lambda a: -np.abs(a) - 1.0,
}


@pytest.mark.parametrize("wrong", WRONG)
def test_every_array_of_a_file_is_checked(wrong, archives, tmp_path):
    n = 0
    for path, load in archives:
        header, arrays = content(path)
        for name, array in arrays.items():
            # Any signs are lawful in parameters, and as steps and points of orbits.
            signed = name.startswith(("params", "orbit_steps", "orbit_whitened"))
            checked = name.startswith(("params", "weights", "orbit"))
            if not checked or (wrong == "negative" and signed):
                continue
            other = arrays | {name: WRONG[wrong](array)}
            np.savez(tmp_path / "w.npz", header=np.array(json.dumps(header)), **other)
            with pytest.raises(ValueError, match="path|weights|params|components"):
                load(tmp_path / "w.npz")
            n += 1
    assert n >= 5


def test_versions_that_there_never_were_are_refused(archives, tmp_path):
    for path, load in archives[:3]:
        header, arrays = content(path)
        for version in (-1, 0, 99, 1.5, None, "1"):
            text = json.dumps(header | {"format_version": version})
            np.savez(tmp_path / "changed.npz", header=np.array(text), **arrays)
            with pytest.raises(ValueError, match="path"):
                load(tmp_path / "changed.npz")


class Bomb:
    """A pickle that writes a file when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize(
    "load", [MixturePosterior.load, BoostingResult.load, ConjugateMixturePosterior.load]
)
def test_no_pickle_is_read(load, tmp_path):
    mark, path = tmp_path / "exploded", tmp_path / "bomb.npz"
    path.write_bytes(pickle.dumps(Bomb(mark)))
    with pytest.raises(ValueError, match="written by") as caught:
        load(path)
    assert caught.type is ValueError
    np.savez(path, header=np.array([Bomb(mark)], dtype=object))
    with pytest.raises(ValueError, match="written by"):
        load(path)
    member = io.BytesIO()
    np.save(member, np.array([Bomb(mark)], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("weights.npy", member.getvalue())
    with pytest.raises(ValueError, match="written by"):
        load(path)
    assert not mark.exists()


# --- writing


def test_a_full_disk_keeps_the_earlier_file(archives, tmp_path, monkeypatch):
    path, (written, load) = tmp_path / "plain.npz", archives[0]
    posterior = load(written)
    posterior.save(path)
    before = path.read_bytes()

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numpy.savez", full)
    with pytest.raises(OSError, match="No space left"):
        posterior.save(path)
    assert path.read_bytes() == before
    assert [*tmp_path.iterdir()] == [path]


def test_links_and_modes_stay(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    link.symlink_to(real)
    write_atomically(link, lambda file: file.write(b"new"))
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    # As open() makes it: others may read it where the user's mask allows.
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    assert real.stat().st_mode == plain.stat().st_mode


def test_what_is_no_file_is_written_to_as_it_is():
    write_atomically(os.devnull, lambda file: file.write(b"x"))
    assert os.path.exists(os.devnull)


def test_shares_of_orbits_are_probabilities_of_lawful_orders(archives, tmp_path):
    path, load = archives[-1]
    header, arrays = content(path)
    n = len(arrays["orbit_shares_0"])
    for shares in (np.full((n, 3), 1.0 / 3.0), np.tile([1.5, -0.5, 0.0, 0.0], (n, 1))):
        other = arrays | {"orbit_shares_0": shares}
        np.savez(tmp_path / "w.npz", header=np.array(json.dumps(header)), **other)
        with pytest.raises(ValueError, match="path holds orbits"):
            load(tmp_path / "w.npz")
