"""What holds where none of the libraries is installed."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skboost.adapters import ExternalDensity, from_bridgestan, from_jax, from_pymc

ADAPTERS = {
    "bridgestan": lambda: from_bridgestan(None),
    "jax": lambda: from_jax(lambda theta: 0.0, 1),
    "pymc": lambda: from_pymc(None),
}


@pytest.mark.parametrize("name", ADAPTERS)
def test_the_error_names_the_package(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        ImportError, match=f"from_{name} needs {name}.*pip install {name}"
    ):
        ADAPTERS[name]()


def test_what_a_library_says_of_itself_is_heeded(monkeypatch):
    single = SimpleNamespace(config=SimpleNamespace(jax_enable_x64=False))
    monkeypatch.setitem(sys.modules, "jax", single)
    with pytest.raises(ValueError, match="JAX is set to single"):
        from_jax(lambda theta: 0.0, 1)
    monkeypatch.setitem(sys.modules, "bridgestan", SimpleNamespace())
    with pytest.raises(ValueError, match="model must have parameters; got none"):
        from_bridgestan(SimpleNamespace(param_unc_num=lambda: 0))


@pytest.mark.slow
def test_none_of_them_is_imported_before_it_is_used():
    code = (
        "import sys, skboost.adapters; "
        f"sys.exit(any(name in sys.modules for name in {[*ADAPTERS, 'pytensor']}))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_stans_names_of_containers(monkeypatch):
    """Of matrices, arrays, complex numbers."""
    names = ["m.1.1", "m.2.1", "m.1.2", "m.2.2", "x", "c.1.real", "c.1.imag"]
    model = SimpleNamespace(
        param_unc_num=lambda: 7,
        param_unc_names=lambda: ["theta.1.2", "mu", *names[2:]],
        param_names=lambda include_tp: names,
        param_constrain=lambda row, include_tp: row,
    )
    monkeypatch.setitem(sys.modules, "bridgestan", SimpleNamespace())
    density = from_bridgestan(model)
    assert density.names[:2] == ("theta[1,2]", "mu")
    found = density.constrain(np.arange(14.0).reshape(2, 7))
    assert_array_equal(found["m"][0], [[0.0, 2.0], [1.0, 3.0]])
    assert_array_equal(found["x"], [4.0, 11.0])
    assert_array_equal(found["c.real"], [[5.0], [12.0]])
    assert_array_equal(found["c.imag"], [[6.0], [13.0]])


@pytest.mark.parametrize("shape", [(5,), (5, 2), (5, 4), (1, 5, 3)])
def test_draws_of_another_shape_are_refused(shape):
    density = ExternalDensity(log_density=None, dim=3, gradient=None, vectorized=True)
    with pytest.raises(ValueError, match=r"draws must be of shape \(n, 3\); got"):
        density.constrain(np.zeros(shape))
    assert density.constrain([[1, 2, 3]]).tolist() == [[1.0, 2.0, 3.0]]
