import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from skboost import BoostedGaussianMixture, SVIGaussianMixture, boost_posterior
from skboost.approximation import Mixture
from skboost.families import DiagonalGaussian, FullGaussian, Laplace, LowRankGaussian
from skboost.inspection import ConvergenceDisplay, PosteriorDisplay
from skboost.posterior import MixturePosterior
from skboost.strategies import GreedySearch

pytest.importorskip("matplotlib").use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


def make_posterior(dim=4, names=("age", "income", "rate", "intercept")):
    rng = np.random.default_rng(0)
    families = [FullGaussian(), LowRankGaussian(rank=1), Laplace()]
    components = []
    for family in families:
        a = rng.standard_normal((dim, dim))
        covariance = a @ a.T / dim + 0.1 * np.eye(dim)
        mean = rng.standard_normal(dim)
        components.append((family, family.from_moments(mean, covariance)))
    return MixturePosterior(
        Mixture(tuple(components), np.array([0.5, 0.3, 0.2])), names
    )


class Fitted:
    """What the displays ask of an estimator."""

    def __init__(self, fitted=True, posterior=None):
        self.tol, self.stopping = 1e-2, "gain"
        if fitted:
            self.posterior_ = make_posterior() if posterior is None else posterior
            self.history_ = make_history()

    def fit(self, X, y=None):
        return self

    def __sklearn_tags__(self):
        return SimpleNamespace(requires_fit=True)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "posterior_")


def make_history(n=5):
    kl = 2.0 ** -np.arange(n)
    return [
        {
            "iteration": t,
            "elbo": -10.0 - kl[t],
            "elbo_se": 0.01,
            "gain": None if t == 0 else kl[t - 1] - kl[t],
            "gain_se": None if t == 0 else 0.01,
            "remaining_kl": kl[t] - kl[-1],
            "remaining_kl_se": 0.02,
        }
        for t in range(n)
    ]


# --- posterior


def test_density_panels_are_named_and_shade_the_interval():
    posterior = make_posterior()
    display = PosteriorDisplay.from_posterior(posterior, ["rate", 0], level=0.8)
    assert [ax.get_xlabel() for ax in display.ax_] == ["rate", "age"]
    shaded = display.ax_[0].collections[0].get_paths()[0].vertices[:, 0]
    expected = posterior.marginal("rate").interval(0.8)
    np.testing.assert_allclose([shaded.min(), shaded.max()], expected)
    # The dashed components add up to the posterior.
    *components, total = display.ax_[0].get_lines()
    added = sum(line.get_ydata() for line in components)
    np.testing.assert_allclose(added, total.get_ydata(), rtol=1e-10)
    display.figure_.draw_without_rendering()
    # What a figure leaves out is said.
    posterior = make_posterior(8, None)
    for features, said in ((None, "6 of 8 coordinates shown"), ([7], "")):
        display = PosteriorDisplay.from_posterior(posterior, features)
        assert display.figure_.get_supxlabel() == said


def test_intervals_exclude_zero_in_colour():
    family = DiagonalGaussian()
    params = np.array([5.0, 0.0, 0.0, 0.0])
    posterior = MixturePosterior(Mixture.single((family, params)), ["far", "near"])
    display = PosteriorDisplay.from_posterior(posterior, kind="interval")
    ax = display.ax_
    display.figure_.draw_without_rendering()
    far, near = ax.collections[0].get_colors()
    assert not np.allclose(far, near)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["far", "near"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]


def test_by_default_the_coefficients_farthest_from_zero_are_shown():
    mean = np.zeros(40)
    mean[10:35] = 3.0
    params = np.concatenate([mean, np.zeros(40)])
    posterior = MixturePosterior(Mixture.single((DiagonalGaussian(), params)))
    ax = PosteriorDisplay.from_posterior(posterior, kind="interval").ax_
    shown = [label.get_text() for label in ax.get_yticklabels()]
    assert shown == [f"theta[{i}]" for i in range(10, 35)]


def test_intervals_of_other_sizes_have_a_scale_of_their_own():
    """A slope of a thousandth beside an intercept of a hundred is no point at zero."""
    params = np.array([120.0, 0.002, 80.0, -0.001, *np.log([9.0, 1e-3, 4.0, 1e-3])])
    names = ["intercept", "slope", "level", "trend"]
    posterior = MixturePosterior(Mixture.single((DiagonalGaussian(), params)), names)
    large, small = PosteriorDisplay.from_posterior(posterior, kind="interval").ax_
    shown = [[y.get_text() for y in ax.get_yticklabels()] for ax in (large, small)]
    assert shown == [["intercept", "level"], ["slope", "trend"]]
    assert max(np.abs(small.get_xlim())) < 0.01 < 100 < max(large.get_xlim())
    _, ax = plt.subplots()
    PosteriorDisplay(posterior).plot(ax=ax, kind="interval")
    assert [y.get_text() for y in ax.get_yticklabels()] == names


def test_own_axes_are_used():
    figure, axes = plt.subplots(1, 2)
    display = PosteriorDisplay(make_posterior(), features=[0, 1]).plot(ax=axes)
    assert display.figure_ is figure
    assert list(display.ax_) == list(axes)
    with pytest.raises(ValueError, match="hold 3 axes"):
        PosteriorDisplay(make_posterior(), features=[0, 1, 2]).plot(ax=axes)
    # One alone gets the ELBO.
    figure, ax = plt.subplots()
    display = ConvergenceDisplay.from_estimator(Fitted(), ax=ax)
    assert display.ax_ is ax and display.figure_ is figure
    assert ax.get_ylabel() == "ELBO ± 2 se (nats)"


def test_impossible_requests_are_refused():
    for features, kind, message in (
        (None, "pair", "kind must be one of.*arviz.plot_pair"),
        (["weight"], "density", "features must be names or indices"),
        ([], "density", "features must be names or indices"),
    ):
        with pytest.raises(ValueError, match=message):
            PosteriorDisplay.from_posterior(make_posterior(), features, kind=kind)
    with pytest.raises(ValueError, match="level must lie strictly"):
        PosteriorDisplay.from_posterior(make_posterior(), level=90)
    with pytest.raises(TypeError, match=r"got SimpleNamespace\. Plot its posterior"):
        PosteriorDisplay.from_posterior(SimpleNamespace(posterior=make_posterior()))


# --- convergence


def boosted_density(power=2, **settings):
    """Of a normal density, or of a Laplace density where the power is one."""
    settings |= {"max_iter": 2, "names": ["left", "right"], "random_state": 0}
    return boost_posterior(
        lambda theta: -(np.abs(theta) ** power).sum(axis=-1) / power,
        2,
        gradient=lambda theta: -np.sign(theta) * np.abs(theta) ** (power - 1),
        **settings,
    )


def test_convergence_has_three_panels(tmp_path):
    display = ConvergenceDisplay.from_estimator(Fitted())
    # The one figure here that is written.
    display.figure_.savefig(tmp_path / "figure.png")
    elbo, gain, remaining = display.ax_
    np.testing.assert_allclose(
        elbo.get_lines()[0].get_ydata(), [h["elbo"] for h in make_history()]
    )
    low, high = elbo.collections[0].get_segments()[0][:, 1]
    assert high - low == pytest.approx(4 * 0.01)
    assert elbo.get_yscale() == "linear"
    assert gain.get_yscale() == remaining.get_yscale() == "symlog"
    tolerance = [line.get_ydata()[0] for line in gain.get_lines()]
    assert Fitted().tol in tolerance
    assert {ax.get_xlim() for ax in display.ax_} == {elbo.get_xlim()}


ODD = {
    "one": make_history(1),
    "first": [{"iteration": 0, "elbo": -3.0, "elbo_se": np.nan}],
    "negative": [{"elbo": -3.0, "gain": -1.0, "gain_se": 0.0, "remaining_kl": -1e-3}],
    "noise": [{"elbo": -3.0, "gain": -1.0, "gain_se": 2.0}] * 3,
    "infinite": [{"elbo": -np.inf, "gain": np.inf, "remaining_kl": np.inf}],
}


@pytest.mark.parametrize("name", ODD)
def test_short_and_odd_histories_are_drawn(name, recwarn):
    history = ODD[name]
    display = ConvergenceDisplay.from_history(history, tol="auto")
    recorded = {"elbo", "gain", "remaining_kl"}.intersection(
        *[[k for k, v in history[-1].items() if v is not None]]
    )
    assert np.size(display.ax_) == len(recorded)
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]
    # Bars stand where the values are, above zero or not.
    panels = np.ravel(display.ax_)
    for ax, key in zip(panels, sorted(recorded), strict=True):
        found = ax.containers[0].lines[0].get_ydata()
        shown = np.array([record.get(key, None) for record in history], dtype=float)
        np.testing.assert_array_equal(found, np.where(np.isinf(shown), np.nan, shown))


def test_one_iteration_shows_what_was_judged():
    result = boosted_density(search=GreedySearch(64))
    ax = ConvergenceDisplay.from_result(result).ax_
    low, high = ax.collections[0].get_segments()[-1][:, 0]
    assert (low, high) == pytest.approx(result.remaining_kl_interval)
    assert result.remaining_kl in ax.get_lines()[0].get_xdata()
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[-1] == "of the posterior,\nby short chains"
    # Several axes get a point each, as those of longer fits.
    _, axes = plt.subplots(2)
    ConvergenceDisplay.from_result(result, ax=axes)
    assert axes[0].get_ylabel() == "ELBO ± 2 se (nats)"


def test_stopping_by_gap_shows_the_gap():
    history = [{"elbo": -3.0, "gap": 0.5, "gap_se": 0.1}]
    display = ConvergenceDisplay.from_history(history, tol=0.1, stopping="gap")
    assert display.ax_[1].get_ylabel() == "duality gap (nats)"
    with pytest.raises(ValueError, match="at least one iteration"):
        ConvergenceDisplay.from_history([])
    with pytest.raises(ValueError, match="'gain' or 'gap'; got 'elbo'"):
        ConvergenceDisplay.from_history(history, stopping="elbo")


# --- both


@pytest.fixture(scope="module")
def result():
    search = GreedySearch(16)
    return boosted_density(1, objective="hellinger", search=search, tol=0.0)


def test_results_are_drawn_as_they_are(result):
    display = ConvergenceDisplay.from_result(result, tol=1e-2)
    np.testing.assert_allclose(
        np.ravel(display.ax_)[0].get_lines()[0].get_ydata(),
        [record["elbo"] for record in result.history],
    )
    assert display.tol == 1e-2
    assert display.ax_[1].get_ylabel() == "fall in squared Hellinger distance"
    drawn = PosteriorDisplay.from_result(result, ["right"], level=0.5)
    assert drawn.ax_.get_xlabel() == "right" and drawn.level == 0.5


@pytest.mark.parametrize("display", [PosteriorDisplay, ConvergenceDisplay])
def test_what_cannot_be_drawn_is_refused(display, monkeypatch):
    with pytest.raises(TypeError, match="got an object of type Fitted. Use from_est"):
        display.from_result(Fitted())
    with pytest.raises(NotFittedError):
        display.from_estimator(Fitted(fitted=False))
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        display.from_estimator(Fitted())


def test_the_style_is_one_and_leaves_no_trace(result):
    with plt.rc_context({"axes.prop_cycle": plt.cycler(color=["red"])}):
        before = dict(plt.rcParams)
        ax = ConvergenceDisplay.from_result(result).ax_[0]
        drawn = PosteriorDisplay.from_result(result, [0]).ax_
        assert dict(plt.rcParams) == before
    with plt.style.context("skboost.inspection.figures"):
        first = plt.rcParams["axes.prop_cycle"].by_key()["color"][0]
    assert ax.get_lines()[0].get_color() == drawn.get_lines()[-1].get_color() == first
    assert drawn.figure.get_layout_engine() is not None


# --- mixtures


def test_draws_that_are_no_vectors_are_left_to_arviz_and_nothing_is_cut():
    X = np.random.default_rng(0).standard_normal((60, 3))
    X[::2] += 6.0
    mixture = BoostedGaussianMixture(2, max_iter=1, random_state=0).fit(X)
    with pytest.raises(TypeError, match=r"to_arviz\(\)"):
        PosteriorDisplay.from_estimator(mixture)
    display = ConvergenceDisplay.from_estimator(mixture)
    box, renderer = display.figure_.bbox, display.figure_.canvas.get_renderer()
    for ax in np.ravel(display.ax_):
        inside = ax.get_tightbbox(renderer)
        assert box.x0 <= inside.x0 and inside.x1 <= box.x1
        assert box.y0 <= inside.y0 and inside.y1 <= box.y1
    # Epochs are called so. Zero has no place on the logarithmic axis of gains.
    fit = SVIGaussianMixture(2, max_iter=5, tol=0.0, random_state=0).fit(X * 1e3)
    elbo, gain = ConvergenceDisplay.from_estimator(fit).ax_
    assert elbo.get_xlabel() == gain.get_xlabel() == "epoch"
    assert elbo.get_ylabel() == "ELBO (nats)"
    assert elbo.yaxis.get_offset_text().get_text() == ""
    plot_forest = pytest.importorskip("arviz").plot_forest
    plot_forest(mixture.posterior_.to_arviz(40, 0), var_names=["means"])
