"""What ``import skboost`` brings: the public names, and none of the extras."""

import doctest
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import skboost

ROOT = Path(__file__).parents[1]
EXTRAS = [
    "matplotlib", "numba", "onnx", "pandas", "arviz", "numpyro", "jax", "rich",
    "xarray", "formulaic",
]  # fmt: skip
PUBLIC_MODULES = [
    "skboost",
    "skboost.adapters",
    "skboost.callbacks",
    "skboost.dask",
    "skboost.exceptions",
    "skboost.decomposition",
    "skboost.families",
    "skboost.inspection",
    "skboost.linear_model",
    "skboost.mixture",
    "skboost.model_selection",
    "skboost.priors",
    "skboost.strategies",
]


def modules_after(statement, cwd):
    """Names in ``sys.modules`` of a new interpreter that ran the statement."""
    code = f"{statement}\nimport sys\nsys.stdout.write('\\n'.join(sys.modules))"
    path = str(Path(skboost.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": path},
        check=True,
        capture_output=True,
        text=True,
    )
    return set(done.stdout.split("\n"))


@pytest.mark.slow
def test_importing_brings_no_extras(tmp_path):
    modules = modules_after(f"import {', '.join(PUBLIC_MODULES)}", tmp_path)
    assert set(PUBLIC_MODULES) <= modules
    # scikit-learn imports some itself where it finds them (pandas, rich).
    of_dependencies = modules_after("import sklearn.base, sklearn.callback", tmp_path)
    assert not (modules - of_dependencies) & set(EXTRAS)
    # Loaded by the starts of mixtures alone; it brings a third of scikit-learn.
    assert "sklearn.cluster" not in modules
    # Not ours to put off: whoever imports scikit-learn has it.
    assert "scipy.stats" in of_dependencies


@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_public_names_are_those_of_all(name):
    module = importlib.import_module(name)
    own = {
        key
        for key, value in vars(module).items()
        if not key.startswith("_")
        and getattr(value, "__module__", "").startswith("skboost")
    }
    assert len(set(module.__all__)) == len(module.__all__)
    assert own <= set(module.__all__)
    assert all(hasattr(module, key) for key in module.__all__)
    # Registries and constants need no docstring.
    public = [getattr(module, key) for key in module.__all__ if key[0] != "_"]
    assert all(value.__doc__ for value in [module, *filter(callable, public)])


def test_the_version_is_in_the_changelog_and_the_citation():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", skboost.__version__)
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    release = skboost.__version__.partition(".dev")[0]
    assert re.search(rf"^{re.escape(release)}\b", text, re.MULTILINE)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {skboost.__version__}\n" in citation


# Extras that examples of a module need.
NEEDS = {"inspection": "matplotlib", "dask": "dask.array", "adapters": "jax"}


def modules_with_examples():
    package = Path(skboost.__file__).parent
    for path in sorted(package.rglob("*.py")):
        if ">>> " in path.read_text(encoding="utf-8"):
            parts = path.relative_to(package.parent).with_suffix("").parts
            yield ".".join(parts)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(modules_with_examples()))
def test_examples_in_docstrings_print_what_they_say(name):
    pytest.importorskip(NEEDS.get(name.split(".")[1], "numpy"))
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted and not found.failed
