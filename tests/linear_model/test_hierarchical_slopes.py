"""Slopes of groups: correlated with intercepts, without these, without coefficients."""

import numpy as np
import pandas as pd
import pytest

from skboost.priors import HalfNormalPrior, LKJPrior

from ..kinds import GroupedLinear, GroupedLogistic, GroupedPoisson, over
from .conftest import response, written

EVERY = [GroupedLinear, GroupedLogistic, GroupedPoisson]
OPTIONS = {"groups": ["pupil"], "slopes": {"pupil": ["day"]}, "random_state": 0}


def days(n_groups=15, n_each=8, rho=-0.8, seed=0):
    """A frame of pupils over days, their effects and linear predictors."""
    rng = np.random.default_rng(seed)
    pupil = np.repeat(np.arange(n_groups), n_each)
    day = np.tile(np.linspace(-1.0, 1.0, n_each), n_groups)
    covariance = np.array([[1.0, rho], [rho, 1.0]])
    effects = rng.multivariate_normal([0.0, 0.0], covariance, n_groups)
    X = pd.DataFrame({"day": day, "pupil": pupil})
    return X, effects, 0.5 * day + effects[pupil, 0] + effects[pupil, 1] * day


@over("kind", EVERY, slow=EVERY[1:])
def test_correlated_slopes_are_found_predicted_and_exported(kind, tmp_path):
    X, effects, eta = days()
    y = response(kind, eta, 0.5)
    model = kind(max_iter=1, **OPTIONS).fit(X, y)
    row = model.variance_components_.loc["cor(pupil: intercept, day)"]
    assert row["5%"] < np.corrcoef(effects.T)[0, 1] < row["95%"]
    assert row["mean"] < 0.0
    *_, scales, drawn = model.sample_posterior(1024, random_state=0)
    rho = scales["cor(pupil: intercept, day)"]
    assert rho.mean() == pytest.approx(row["mean"], abs=5.0 * row["std"] / 32.0)
    assert drawn["pupil"].shape == (1024, 15, 2)
    # Effects of pupils that are new are correlated, too.
    new = pd.DataFrame({"day": [1.5, -1.5], "pupil": [99, 99]})
    if kind is GroupedLinear:
        _, (after, before) = model.predict(new, return_std=True)
        assert after < 0.8 * before
    new = pd.DataFrame({"day": [0.7, -0.7], "pupil": [99, 3]})
    name = "predict_proba" if hasattr(model, "predict_proba") else "predict"
    model.export(tmp_path / "slopes.py")
    exported = getattr(written(tmp_path / "slopes.py"), name)(new.to_numpy())
    np.testing.assert_array_equal(exported, getattr(model, name)(new))


def test_the_prior_of_correlations_may_be_set_for_each_factor():
    X, _, eta = days()
    y = response(GroupedLinear, eta, 0.5)

    def correlation(correlated):
        model = GroupedLinear(correlated=correlated, max_iter=1, **OPTIONS).fit(X, y)
        table = model.variance_components_
        return table.loc["cor(pupil: intercept, day)", "mean"]

    assert abs(correlation({"pupil": LKJPrior(50.0)})) < abs(correlation(True))
    with pytest.raises(KeyError):
        correlation(False)


def test_slopes_stand_without_intercepts_and_without_coefficients(tmp_path):
    X, effects, _ = days()
    X.insert(0, "age", np.random.default_rng(2).normal(size=len(X)))
    y = X["age"] + effects[X["pupil"], 1] * X["day"]
    y += 0.1 * np.random.default_rng(3).normal(size=len(X))
    model = GroupedLinear(fixed=["age"], group_intercepts=False, max_iter=1, **OPTIONS)
    model.fit(X, y)
    assert model.coef_ == pytest.approx([1.0], abs=0.05)
    assert list(model.variance_components_.index) == ["sd(pupil: day)", "noise_scale"]
    found = model.group_effects_["pupil"]
    np.testing.assert_allclose(found[:, 0], effects[:, 1], atol=0.3)
    np.testing.assert_allclose(model.predict(X), y, atol=0.5)
    assert model.icc_ == {}
    model.export(tmp_path / "slopes.py")
    exported = written(tmp_path / "slopes.py").predict(X.head().to_numpy())
    np.testing.assert_array_equal(exported, model.predict(X.head()))


def test_scales_have_priors_by_factor_and_by_name():
    X, _, eta = days()
    y = response(GroupedLinear, eta, 0.5)

    def scales(scale_prior):
        options = OPTIONS | {"correlated": False, "scale_prior": scale_prior}
        model = GroupedLinear(max_iter=1, **options).fit(X, y)
        return model.variance_components_["mean"]

    tight = HalfNormalPrior(0.1)
    wide, of_factor = scales("half_t"), scales({"pupil": tight})
    of_slope = scales({"sd(pupil: day)": tight, "pupil": "half_t"})
    for name in ("sd(pupil)", "sd(pupil: day)"):
        assert of_factor[name] < 0.6 * wide[name]
    assert of_slope["sd(pupil: day)"] < 0.6 * wide["sd(pupil: day)"]
    assert of_slope["sd(pupil)"] > 0.7 * wide["sd(pupil)"]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"correlated": {"pupil": 2.0}}, "correlated must be True, False or an LKJPri"),
        ({"correlated": {"day": True}}, "correlated must have keys among the factors"),
        ({"correlated": LKJPrior(0.0)}, "shape of LKJPrior must be a positive finite"),
        (
            {"slopes": None, "group_intercepts": {"pupil": False}},
            "group_intercepts mus",
        ),
        ({"fixed": ["pupil"]}, "fixed must name columns of X that are features; got"),
        ({"fixed": ["day", 0]}, "fixed must name every column once"),
        ({"scale_prior": {"day": "half_t"}}, "scale_prior must have keys among"),
        ({"scale_prior": {"pupil": 1.0}}, "scale_prior must be 'half_t', a ScalePrior"),
    ],
)
def test_what_cannot_be_said_of_effects_is_refused_by_name(params, message):
    X, _, eta = days()
    with pytest.raises(ValueError, match=message):
        GroupedLinear(**OPTIONS | params).fit(X, eta)


def test_what_remains_at_most_is_known_where_scales_alone_are_left():
    X, _, eta = days()
    model = GroupedLinear(**OPTIONS).fit(X, response(GroupedLinear, eta, 0.5))
    lower, upper = model.remaining_kl_interval_
    assert 0.0 <= lower <= upper < 0.2
    # The evidence by importance sampling from the posterior's draws, which see all.
    allowance = 3.0 * model.remaining_kl_se_ + 2.0 * model.elbo_se_
    assert lower - allowance <= model.remaining_kl_ <= upper + allowance
