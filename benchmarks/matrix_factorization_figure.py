"""Picture of ``matrix_factorization.py curves``: bounds by epoch, all starts.

    python benchmarks/matrix_factorization_figure.py

Writes ``doc/_static/matrix_factorization_curves.png``.
"""

from _pictures import plt, results, save


def main():
    curves = results("matrix_factorization_curves_100k")["curves"]
    cases = list(dict.fromkeys(curve["case"] for curve in curves))
    figure, grid = plt.subplots(
        1, len(cases), figsize=(5.6 * len(cases), 3.8), squeeze=False
    )
    for axes, case in zip(grid[0], cases, strict=True):
        for curve in [c for c in curves if c["case"] == case]:
            epochs = range(1, len(curve["mean"]) + 1)
            # Where the two batch curves coincide, both are to be seen.
            line = "--" if "gauge" in curve["method"] else "-"
            axes.plot(epochs, curve["mean"], line, label=curve["method"])
            axes.fill_between(epochs, curve["least"], curve["most"], alpha=0.2)
        best = max(max(c["most"]) for c in curves if c["case"] == case)
        axes.set_ylim(best - 1e5, best + 5e3)
        axes.set(title=case, xlabel="epoch")
    grid[0, 0].set_ylabel("ELBO (nats): mean and range")
    figure.legend(
        *grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4
    )
    save(figure, "matrix_factorization_curves")


if __name__ == "__main__":
    main()
