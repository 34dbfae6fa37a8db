"""What the pictures of benchmarks share: colours, sizes, and where files are."""

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (after the backend is set)

_ROOT = Path(__file__).resolve().parent.parent
STATIC = _ROOT / "doc" / "_static"
# The look of the package's displays, in the size of a page.
plt.style.use("skboost.inspection.figures")
plt.rcParams.update({"font.size": 9, "savefig.dpi": 130})
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = [
    entry["color"] for entry in plt.rcParams["axes.prop_cycle"]
][:6]
GREY = "#555555"


def results(name, folder=_ROOT / "benchmarks" / "results"):
    """The content of ``NAME.json``."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def save(figure, name):
    """Write ``doc/_static/NAME.png``."""
    figure.savefig(STATIC / f"{name}.png")
    plt.close(figure)
