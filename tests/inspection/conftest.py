"""Figures are closed after every test."""

import pytest


@pytest.fixture(autouse=True)
def close_figures():
    plt = pytest.importorskip("matplotlib.pyplot")
    yield
    plt.close("all")
