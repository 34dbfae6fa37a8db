"""Picture of the results of ``topics.py``: estimated bounds by pass.

    python benchmarks/topics_figures.py

Writes ``doc/_static/topics_curves.png``.
"""

import numpy as np
from _pictures import plt, results, save

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
    figure, grid = plt.subplots(1, 2, figsize=(8.4, 3.8))
    for axes, (data, name) in zip(grid, _DATA.items(), strict=True):
        curves(axes, results(f"topics_{data}"))
        axes.set(title=name, xlabel="pass over the documents")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18))
    grid[0].set_ylabel(f"ELBO less that of {_REFERENCE} (nats)")
    save(figure, "topics_curves")


if __name__ == "__main__":
    main()
