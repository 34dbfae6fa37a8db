"""Names of any length stay within the figure, and no two of them overlap."""

import numpy as np
import pytest

from skboost.approximation import Mixture
from skboost.families import DiagonalGaussian
from skboost.inspection import (
    ComparisonDisplay,
    ConvergenceDisplay,
    EvidenceDisplay,
    GroupEffectsDisplay,
    MixtureDisplay,
    PosteriorDisplay,
    PredictionDisplay,
    PredictiveCheckDisplay,
    ResidualDisplay,
)
from skboost.posterior import MixturePosterior

from ..kinds import over

pytest.importorskip("matplotlib").use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")
Text = pytest.importorskip("matplotlib.text").Text

WORDS = "height_of_the_tide household income per week AT THE HARBOUR before 9".split()
TURNED = [" ".join(np.roll(WORDS, k)[:-1]) + f" {k}" for k in range(12)]
TURNED[1] = TURNED[1].replace(" ", "_").upper()
NAMES = {"short": ["x0", "x1", "x2"], "long": TURNED[:3], "twelve": TURNED}
# Of other pictures there is one.
N_PANELS = {"densities": 6, "residuals": 2, "convergence": 3, "mixture": 3}
x = np.linspace(-1.0, 1.0, 30)


def posterior(names, spread=0.0):
    n = len(names)
    means = np.linspace(-1.0, 2.0, n) * 10.0 ** (spread * np.arange(n) / n)
    params = np.concatenate([means, np.log(0.1 + np.abs(means))])
    mixture = Mixture.single((DiagonalGaussian(), params))
    return PosteriorDisplay(MixturePosterior(mixture, names))


def interval_ends(n, n_lines=None):
    shape = (n,) if n_lines is None else (n, n_lines)
    middle = np.linspace(0.2, 0.7, np.prod(shape)).reshape(shape)
    return middle, np.stack([middle - 0.1, middle + 0.1], axis=-1)


def prediction(names, values, lines, **settings):
    return PredictionDisplay(
        values, *interval_ends(len(values), len(lines)), lines, names[0], **settings
    )


def comparison(names):
    kinds = [("column", object), ("contrast", object), ("class", object)]
    kinds += [(name, float) for name in ("difference", "lower", "upper")]
    rows = [
        (a, f"{b} vs {a}", b, 0.1, -0.1, 0.3)
        for a, b in zip(names, names[::-1], strict=True)
    ]
    table = np.array(rows, dtype=kinds)
    return ComparisonDisplay(table, kind=f"probability of {names[0]}")


def evidence(names, values):
    params = [{names[0]: v, names[1]: w} for v in values for w in names]
    elbo = -np.linspace(10.0, 20.0, len(params))
    rank = np.arange(1, len(params) + 1)
    table = {"params": params, "elbo": elbo, "elbo_se": 0 * elbo, "rank_elbo": rank}
    return EvidenceDisplay(table, param=names[0])


def convergence(names):
    entry = {"elbo_se": 0.1, "gain": 0.5, "gain_se": 0.1, "remaining_kl": 0.2}
    return ConvergenceDisplay([entry | {"elbo": -k} for k in range(1, 6)], tol="auto")


def judged(names):
    rows = [(f"of the posterior,\nby {k} draws", 0.1, 0.2, 0.3) for k in range(3)]
    return ConvergenceDisplay([{"elbo": -1.0}], judged=rows)


def groups(names):
    middle, ends = interval_ends(len(names))
    name = f"effect of {names[0]} on the slope of {names[1]}, log odds"
    return GroupEffectsDisplay(middle, ends, ends, names, name)


def many_groups(names):
    names = [f"{name}{k}" for name in names for k in range(40)]
    return groups(names)


def mixture(names):
    turn = np.linspace(0.0, 6.3, 30)
    ellipse = np.stack([np.cos(turn), np.sin(turn)], axis=-1)[None]
    points, together = np.stack([x, x**2], axis=-1), np.outer(x, x) ** 2
    shares = dict.fromkeys((1, 2, 3), 1 / 3)
    labels = np.zeros(30, int)
    return MixtureDisplay(points, labels, [ellipse], names[:2], shares, together)


PICTURES = {
    "densities": posterior,
    "intervals": lambda names: (posterior(names), {"kind": "interval"}),
    "intervals of several scales": lambda names: (
        posterior(names, 4.0),
        {"kind": "interval"},
    ),
    "groups": groups,
    "many groups": many_groups,
    "numbers of a column": lambda names: prediction(
        names, x, [f"probability of {names[0]}"]
    ),
    "labels of a column": lambda names: prediction(
        names,
        np.array(names),
        ["expected response"],
        new=interval_ends(len(names))[1],
        data=(np.array(names), np.linspace(0, 1, len(names))),
    ),
    "classes along a column": lambda names: prediction(
        names, x, [f"probability of {name}" for name in names]
    ),
    "classes by labels": lambda names: prediction(
        names, np.array(names), [f"probability of {name}" for name in names]
    ),
    "comparisons": comparison,
    "quantiles": lambda names: PredictiveCheckDisplay(x, x, np.stack([x, x], -1)),
    "counts": lambda names: PredictiveCheckDisplay(
        *(30 * part for part in (0.5 + 0 * x, *interval_ends(30))),
        [f"{k}" for k in range(30)],
        kind="number of successes",
    ),
    "counted classes": lambda names: PredictiveCheckDisplay(
        np.full(len(names), 20.0),
        *(30 * part for part in interval_ends(len(names))),
        names,
        kind="class",
    ),
    "residuals": lambda names: ResidualDisplay(x, x, names[0]),
    "convergence": convergence,
    "one iteration": judged,
    "evidence by numbers": lambda names: evidence(names, [1, 2, 4]),
    "evidence by texts": lambda names: evidence(names, names),
    "mixture": mixture,
}


# Another picture has its names in the same places.
ALIKE = (
    "intervals of several scales", "many groups", "classes along a column",
    "classes by labels", "quantiles", "counts", "convergence", "evidence by texts",
    "groups", "numbers of a column",
)  # fmt: skip
each_picture = over("picture", PICTURES, slow=ALIKE)


def plot(picture, names, ax=None):
    display = PICTURES[picture](NAMES[names])
    display, settings = display if isinstance(display, tuple) else (display, {})
    return display.plot(ax=ax, **settings)


@pytest.fixture
def texts(monkeypatch):
    """Function of a figure: all texts that are drawn, and where."""
    drawn = {}

    def draw(self, renderer):
        if self.get_visible() and self.get_text().strip():
            drawn[self] = self.get_window_extent(renderer).padded(-1.0)

    def texts_of(figure):
        drawn.clear()
        figure.draw_without_rendering()
        return drawn

    monkeypatch.setattr(Text, "draw", draw)
    return texts_of


def assert_apart(boxes):
    """No two boxes overlap."""
    ends = np.reshape([box.extents for box in boxes], (-1, 4))
    ahead = (ends[:, None, :2] < ends[None, :, 2:]).all(axis=-1)
    assert not np.triu(ahead & ahead.T, 1).any()


@pytest.mark.filterwarnings("error:constrained_layout")
@each_picture
def test_names_of_any_length_are_whole_inside_and_apart(picture, texts):
    said, sizes = {}, {}
    for names in NAMES:
        figure = plot(picture, names).figure_
        found, whole = texts(figure), figure.bbox.extents
        ends = np.array([box.extents for box in found.values()])
        assert (ends[:, :2] >= whole[:2]).all() and (ends[:, 2:] <= whole[2:]).all()
        assert_apart(found.values())
        said[names] = "|".join("".join(text.get_text().split()) for text in found)
        sizes[names] = np.array([axes.bbox.size for axes in figure.axes])
    for short, name in zip(NAMES["short"], NAMES["long"], strict=True):
        assert said["short"].count(short) == said["long"].count(name.replace(" ", ""))
    # What is drawn keeps its room.
    assert (sizes["long"] > 0.6 * sizes["short"]).all()


@pytest.mark.filterwarnings("ignore:constrained_layout")
@each_picture
def test_figures_of_the_caller_keep_their_size(picture, texts):
    n = N_PANELS.get(picture, 1)
    settings = {"figsize": (5.0 * n, 7.0), "squeeze": False, "layout": "constrained"}
    figure, axes = plt.subplots(1, n, **settings)
    plot(picture, "twelve", axes[0] if n > 1 else axes[0, 0])
    assert figure.get_size_inches().tolist() == [5.0 * n, 7.0]
    found = texts(figure)
    for one in axes[0]:
        below = [*one.get_xticklabels(), one.xaxis.label]
        below = [found[text] for text in below if text in found]
        assert_apart(below)
        assert all(0.0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in below)
