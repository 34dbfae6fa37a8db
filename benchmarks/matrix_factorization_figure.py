"""Picture of ``matrix_factorization.py curves``: bounds by epoch, all starts.

    python benchmarks/matrix_factorization_figure.py

Writes ``doc/_static/matrix_factorization_curves.png``.
"""

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

_ROOT = Path(__file__).resolve().parent.parent


def main():
    path = _ROOT / "benchmarks" / "results" / "matrix_factorization_curves_100k.json"
    curves = json.loads(path.read_text(encoding="utf-8"))["curves"]
    cases = list(dict.fromkeys(curve["case"] for curve in curves))
    figure, grid = plt.subplots(
        1, len(cases), figsize=(5.2 * len(cases), 3.6), layout="constrained",
        squeeze=False,
    )  # fmt: skip
    for axes, case in zip(grid[0], cases, strict=True):
        for curve in [c for c in curves if c["case"] == case]:
            epochs = range(1, len(curve["mean"]) + 1)
            axes.plot(epochs, curve["mean"], label=curve["method"])
            axes.fill_between(epochs, curve["least"], curve["most"], alpha=0.2)
        best = max(max(c["most"]) for c in curves if c["case"] == case)
        axes.set_ylim(best - 1e5, best + 5e3)
        axes.set(title=case, xlabel="epoch", ylabel="ELBO, nats")
        axes.legend(fontsize=7)
    figure.savefig(
        _ROOT / "doc" / "_static" / "matrix_factorization_curves.png", dpi=110
    )


if __name__ == "__main__":
    main()
