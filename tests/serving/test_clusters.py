"""Exported mixtures answer as the mixtures do, for rows with gaps, too."""

import runpy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from skboost import BoostedGaussianMixture, SVIGaussianMixture

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)) * [1.0, 3.0, 0.2] + 4.0 * (np.arange(60) % 2)[:, None]
# Far out, too; rows that lack some values, and one that lacks all.
NEW = np.concatenate([RNG.normal(size=(40, 3)), 1e3 * RNG.normal(size=(40, 3))])
GAPS = NEW.copy()
GAPS[::3, 0] = GAPS[::4, 2] = GAPS[7] = np.nan
DIRICHLET = {"weight_concentration_prior_type": "dirichlet_process"}
MODELS = [
    (SVIGaussianMixture, {}),
    (SVIGaussianMixture, {"covariance_type": "tied"} | DIRICHLET),
    (SVIGaussianMixture, {"covariance_type": "diag", "covariance_prior": None}),
    (SVIGaussianMixture, {"covariance_type": "spherical", "reg_covar": 0.1}),
    (SVIGaussianMixture, {"mean_prior_type": "independent"}),
    (SVIGaussianMixture, {"known_covariances": np.diag([1.0, 9.0, 0.1])}),
    (BoostedGaussianMixture, DIRICHLET),
    (BoostedGaussianMixture, {"covariance_type": "diag"}),
    pytest.param(
        BoostedGaussianMixture,
        {"mean_prior_type": "independent"},
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.parametrize(("kind", "params"), MODELS)
def test_answers_are_those_of_the_mixture(kind, params, tmp_path):
    # A scale that is learned is in no file.
    params = {"covariance_prior": None} | params
    model = kind(3, random_state=0, max_iter=4, **params).fit(X)
    model.export(tmp_path / "file.py")
    written = runpy.run_path(str(tmp_path / "file.py"))
    takes_gaps = model.__sklearn_tags__().input_tags.allow_nan
    for rows in (NEW, GAPS) if takes_gaps else (NEW,):
        for name in ("predict_proba", "score_samples"):
            expected = getattr(model, name)(rows)
            assert np.isfinite(expected).all()
            assert_allclose(written[name](rows), expected, rtol=1e-10, atol=1e-10)
        assert_array_equal(written["predict"](rows), model.predict(rows))
    if not takes_gaps:
        with pytest.raises(ValueError, match="X must be finite; got NaN or infinity"):
            written["predict"](GAPS)
    with pytest.raises(ValueError, match="X must be finite; got .*infinity"):
        written["predict"](np.full((1, 3), np.inf))
    with pytest.raises(ValueError, match=r"shape \(n_samples, 3\); got"):
        written["predict"](NEW[:, :2])


def test_explanations_are_written_with_their_weights(tmp_path):
    # Of clusters that overlap several distributions share the weight.
    overlapping = RNG.normal(size=(30, 1)) + 2.0 * (np.arange(30) % 3)[:, None]
    model = BoostedGaussianMixture(5, random_state=0).fit(overlapping)
    weights = model.posterior_.weights
    assert len(weights) > 1 and weights.max() < 0.99
    model.export(tmp_path / "file.py")
    written = runpy.run_path(str(tmp_path / "file.py"))
    rows = np.linspace(-3.0, 9.0, 50)[:, None]
    logs = model.score_samples(rows)
    assert_allclose(written["score_samples"](rows), logs, rtol=1e-10)
    assert_array_equal(written["predict"](rows), model.predict(rows))
    proba = model.predict_proba(rows)
    assert_allclose(written["predict_proba"](rows), proba, atol=1e-10)
    # The density is the average over draws of the parameters.
    draws = model.sample_posterior(4000, random_state=0)
    scales = np.sqrt(draws["covariances"][..., 0, 0])
    each = norm.pdf(rows[:, None], draws["means"][..., 0], scales) * draws["weights"]
    mean, se = each.sum(axis=2).mean(axis=1), each.sum(axis=2).std(axis=1) / 4000**0.5
    assert (np.abs(np.exp(logs) - mean) < 5.0 * se).all()
