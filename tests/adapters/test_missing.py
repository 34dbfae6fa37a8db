"""What is said where a library is not installed."""

import subprocess
import sys

import pytest

from skboost.adapters import from_bridgestan, from_jax, from_pymc

ADAPTERS = {
    "bridgestan": lambda: from_bridgestan(None),
    "jax": lambda: from_jax(lambda theta: 0.0, 1),
    "pymc": lambda: from_pymc(None),
}


@pytest.mark.parametrize("name", ADAPTERS)
def test_the_error_names_the_extra(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf'from_{name}.*"skboost\[{name}\]"'):
        ADAPTERS[name]()


def test_none_of_them_is_imported_before_it_is_used():
    code = (
        "import sys, skboost.adapters; "
        f"sys.exit(any(name in sys.modules for name in {[*ADAPTERS, 'pytensor']}))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
