"""Picture of the results of ``topics.py``: estimated bounds by pass.

    python benchmarks/topics_figures.py

Writes ``doc/_static/topics_curves.png``.
"""

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

_ROOT = Path(__file__).resolve().parent.parent
_DATA = {"nyt_bow": "New York Times", "ap_bow": "Associated Press"}
_REFERENCE = "SVI, |S|=1000"


def curves(axes, found):
    """Mean differences to SVI with the larger batches, with two standard errors."""
    paths = {one["method"]: np.array(one["elbo"]) for one in found["curves"]}
    for method, path in paths.items():
        gain = path - paths[_REFERENCE][: len(path)]
        mean, at = gain.mean(axis=0), np.arange(1, gain.shape[1] + 1)
        axes.plot(at, mean, label=f"{method}; seeds: {len(gain)}")
        if len(gain) > 1:
            error = 2.0 * gain.std(axis=0, ddof=1) / np.sqrt(len(gain))
            axes.fill_between(at, mean - error, mean + error, alpha=0.2)


def main():
    figure, grid = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for axes, (data, name) in zip(grid, _DATA.items(), strict=True):
        path = _ROOT / "benchmarks" / "results" / f"topics_{data}.json"
        curves(axes, json.loads(path.read_text(encoding="utf-8")))
        axes.set(title=name, xlabel="pass")
        axes.legend(fontsize=7)
    grid[0].set_ylabel(f"estimated ELBO, less that of\n{_REFERENCE}; nats")
    figure.savefig(_ROOT / "doc" / "_static" / "topics_curves.png", dpi=110)


if __name__ == "__main__":
    main()
