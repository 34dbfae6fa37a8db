"""What the pictures of benchmarks share: colours, sizes, and where files are."""

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (after the backend is set)

_ROOT = Path(__file__).resolve().parent.parent
STATIC = _ROOT / "doc" / "_static"
# Okabe and Ito's colours, which colour-blind readers can tell apart.
BLUE, ORANGE, GREEN = "#0072B2", "#E69F00", "#009E73"
VERMILION, PURPLE, SKY, GREY = "#D55E00", "#CC79A7", "#56B4E9", "#555555"

plt.rcParams.update(
    {
        "font.size": 9,
        "axes.titlesize": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
        "savefig.dpi": 130,
        "figure.constrained_layout.use": True,
    }
)


def results(name, folder=_ROOT / "benchmarks" / "results"):
    """The content of ``NAME.json``."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def save(figure, name):
    """Write ``doc/_static/NAME.png``."""
    figure.savefig(STATIC / f"{name}.png")
    plt.close(figure)
