"""Clusters as a figure: what is drawn is what the posterior says."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skboost import BoostedGaussianMixture, SVIGaussianMixture
from skboost.inspection import MixtureDisplay

from ..kinds import over

pytest.importorskip("matplotlib").use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")
X = load_iris().data[::3]


FEW = {"max_iter": 1, "covariance_prior": None, "random_state": 0}
MIXTURES = {
    "boosted": lambda kind: BoostedGaussianMixture(2, covariance_type=kind, **FEW),
    "svi": lambda kind: SVIGaussianMixture(
        2, covariance_type=kind, **FEW | {"max_iter": 100}
    ),
}


@pytest.mark.parametrize("name", MIXTURES)
@over("kind", ["full", "tied", "diag", "spherical"], slow=["diag", "spherical"])
def test_every_mixture_is_drawn_and_gaps_where_they_are_expected(name, kind):
    gaps, mixture = X.copy(), MIXTURES[name](kind)
    if kind != "tied":
        gaps[::5, 1] = np.nan
    try:
        mixture.fit(gaps)
    except ValueError as error:
        # Of some shapes there are no rows with gaps.
        assert "NaN" in str(error)
        gaps = X
        mixture.fit(gaps)
    display = MixtureDisplay.from_estimator(mixture, gaps, features=(0, 2), n_draws=3)
    np.testing.assert_array_equal(display.points, mixture.impute(gaps)[:, [0, 2]])
    assert len(display.ellipses) == 4 and display.axes == ("x0", "x2")
    assert display.n_components_proba == {2: pytest.approx(1.0)}
    # Rows of one cluster come first, and belong together.
    n = np.bincount(display.labels)[0]
    assert display.together[:n, :n].mean() > 0.9 > display.together[:n, n:].mean()
    draws = mixture.sample_posterior(2, random_state=0)
    assert draws["covariances"].shape == draws["precisions"].shape
    # Ellipses hold nine tenths of each cluster.
    covariance = mixture.covariances_
    if kind == "tied":
        covariance = np.stack([covariance] * 2)
    elif kind != "full":
        covariance = covariance.reshape(2, -1, 1) * np.eye(4)
    for k in range(2):
        away = display.ellipses[0][k] - mixture.means_[k, [0, 2]]
        inverse = np.linalg.inv(covariance[k][np.ix_([0, 2], [0, 2])])
        squared = np.einsum("ni,ij,nj->n", away, inverse, away)
        # The quantile .9 of chi-squared with two degrees of freedom.
        np.testing.assert_allclose(squared, 4.60517, rtol=1e-5)
    # One colour a cluster: its rows, and an ellipse of each draw beside the expected.
    assert len(display.axes_[0].lines) == 8


def test_principal_components_numbers_and_the_map():
    few = X[::4]
    mixture = BoostedGaussianMixture("auto", max_iter=1, random_state=0).fit(few)
    display = MixtureDisplay.from_estimator(mixture, few, n_draws=2)
    centred = display.points - display.points.mean(axis=0)
    assert abs(centred[:, 0] @ centred[:, 1]) < 1e-9
    heights = [bar.get_height() for bar in display.axes_[1].patches]
    assert sum(heights) == pytest.approx(1.0, abs=0.01)
    order = np.argsort(mixture.predict(few), kind="stable")
    np.testing.assert_allclose(display.together, mixture.co_clustering(few[order]))
    _, axes = plt.subplots(1, 3)
    again = display.plot(ax=axes)
    assert again.axes_[0] is axes[0]


def test_rows_of_a_pipeline_are_drawn_as_its_steps_transform_them():
    pipe = make_pipeline(StandardScaler(), SVIGaussianMixture(2, random_state=0))
    search = GridSearchCV(pipe, {"svigaussianmixture__tol": [1e-3]}, cv=2).fit(X)
    display = MixtureDisplay.from_estimator(search, X, features=(0, 2), n_draws=2)
    scaled = StandardScaler().fit_transform(X)
    np.testing.assert_allclose(display.points, scaled[:, ::2])


def test_what_can_not_be_drawn_is_named():
    with pytest.raises(NotFittedError):
        MixtureDisplay.from_estimator(BoostedGaussianMixture(2), X)
    with pytest.raises(TypeError, match="needs a BoostedGaussianMixture or SVIGau"):
        MixtureDisplay.from_estimator(GaussianMixture(2).fit(X), X)
    mixture = BoostedGaussianMixture(2, max_iter=1, random_state=0).fit(X)
    for wrong in ((0,), (0, 9), (0.5, 1)):
        with pytest.raises(ValueError, match="features must be two positions"):
            MixtureDisplay.from_estimator(mixture, X, features=wrong)
