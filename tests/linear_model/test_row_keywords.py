"""Keywords of rows: trials of binomial counts, offsets of linear predictors."""

import runpy

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import expit
from scipy.stats import binom
from sklearn.base import clone

from skboost import RowBlocks
from skboost.priors import HalfNormalPrior

from ..kinds import GroupedLinear, GroupedLogistic, Linear, Logistic, Ordinal

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 2))
TRIALS = RNG.integers(0, 9, 24)
Y = RNG.binomial(TRIALS, 1.0 / (1.0 + np.exp(-X[:, 0])))
EACH = np.repeat(np.arange(24), TRIALS)
LABELS = np.concatenate([np.arange(n) < k for n, k in zip(TRIALS, Y, strict=True)])
LABELS = LABELS.astype(int)


def flat():
    return Logistic(random_state=0)


def test_trials_are_rows_that_stand_as_often():
    model = flat().fit(X, Y, trials=TRIALS)
    expected = flat().fit(X[EACH], LABELS)
    assert model.classes_.tolist() == [0, 1]
    assert_allclose(model.coef_, expected.coef_, rtol=1e-3)
    assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-4)
    score = model.score(X, Y, trials=TRIALS)
    assert score == pytest.approx(model.score(X[EACH], LABELS))
    weight = np.linspace(0.5, 2.0, 24)
    assert_allclose(
        model.fit(X, Y, weight, TRIALS).coef_,
        expected.fit(X[EACH], LABELS, weight[EACH]).coef_,
        rtol=1e-3,
    )


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_probabilities_of_counts_are_those_of_binomial_ones(family):
    one = {"max_iter": 1, "prior_scale": 1.0, "family": family}
    model = flat().set_params(**one).fit(X, Y, trials=TRIALS)
    found = model.log_predictive_density(X, Y, trials=TRIALS)
    if family == "gaussian":
        nodes, weights = np.polynomial.hermite_e.hermegauss(200)
        mean, std = model.predict_latent(X)
        p = expit(mean[:, None] + std[:, None] * nodes)
        exact = binom.pmf(Y[:, None], TRIALS[:, None], p) @ weights / weights.sum()
        assert_allclose(found, np.log(exact), atol=1e-8)
    # Every number of successes in eight trials, and one trial alone.
    of_eight = [
        model.log_predictive_density(X, np.full(24, k), None, 8) for k in range(9)
    ]
    assert_allclose(np.exp(of_eight).sum(axis=0), 1.0, rtol=1e-8)
    alone = model.log_predictive_density(X, Y > 0, trials=1)
    expected = model.log_predictive_density(X, (Y > 0).astype(int))
    assert_allclose(alone, expected, atol=1e-3 if family == "laplace" else 1e-8)


@pytest.mark.slow
def test_groups_have_trials_too():
    frame = pd.DataFrame(X[:, :1], columns=["dose"])
    frame["litter"] = np.arange(24) % 6
    model = GroupedLogistic(groups=["litter"], random_state=0)
    expected = clone(model).fit(frame.iloc[EACH], LABELS)
    model.fit(frame, Y, trials=TRIALS)
    assert_allclose(model.coef_, expected.coef_, rtol=5e-3)
    assert_allclose(
        model.group_effects_["litter"], expected.group_effects_["litter"], atol=5e-3
    )
    score = model.score(frame, Y, trials=TRIALS)
    assert score == pytest.approx(expected.score(frame.iloc[EACH], LABELS))
    by_count = [
        model.log_predictive_density(frame, np.full(24, k), trials=5) for k in range(6)
    ]
    assert_allclose(np.exp(by_count).sum(axis=0), 1.0)
    alone = model.log_predictive_density(frame, Y > 0, trials=1)
    assert_allclose(alone, model.log_predictive_density(frame, Y > 0))
    predictive, rows = model._asked(frame)
    draws = predictive.model.predictors(*rows)
    p = expit(np.concatenate([eta for _, eta in draws]))
    exact = binom.pmf(Y[:, None], TRIALS[:, None], p).mean(axis=1)
    found = model.log_predictive_density(frame, Y, trials=TRIALS)
    assert_allclose(found, np.log(exact))


@pytest.mark.parametrize("groups", [False, True])
def test_trials_that_the_fit_had_by_name_are_found_by_it(groups):
    kept = TRIALS > 0
    frame = pd.DataFrame({"x": X[kept, 0], "g": np.arange(24)[kept] % 3})
    frame["tried"], y = TRIALS[kept], Y[kept]
    kind = GroupedLogistic if groups else type(flat())
    options = {"groups": ["g"], "fixed": ["x"]} if groups else {}
    used = frame if groups else frame[["x", "tried"]]
    model = kind(random_state=0, **options).fit(used, y, trials="tried")
    for name in ("score", "log_predictive_density"):
        found = getattr(model, name)(used, y)
        assert_allclose(found, getattr(model, name)(used, y, trials=TRIALS[kept]))
    with pytest.raises(ValueError, match="trials must be .* got 'm', which is none"):
        model.fit(used, y, trials="m")


@pytest.mark.parametrize(
    ("y", "trials", "match"),
    [
        (TRIALS + 1, TRIALS, "y must not exceed trials.* got .* in row 0"),
        (Y + 0.5, TRIALS, "y must hold whole numbers"),
        (Y, TRIALS - 9, "trials must hold whole numbers"),
        (Y, np.where(TRIALS > 5, np.nan, TRIALS), "trials must hold whole numbers"),
        (Y, TRIALS[:-1], "inconsistent numbers of samples"),
        (None, TRIALS, "trials needs X as an array"),
        (0 * Y, 0 * TRIALS, "weight"),
    ],
)
def test_other_counts_are_refused(y, trials, match):
    model = flat().fit(X, Y, trials=TRIALS)
    before = model.coef_
    with pytest.raises(ValueError, match=match):
        model.fit(X, y, trials=trials)
    assert model.coef_ is before


def test_one_number_of_trials_for_all_rows_and_proportions():
    model = flat().set_params(prior_scale=1.0, max_iter=1)
    expected = model.fit(X, np.full(24, 3), trials=np.full(24, 30)).elbo_
    assert model.fit(X, np.full(24, 0.1) * 30, trials=30).elbo_ == expected


def test_batches_of_trials_and_their_joint_density():
    model = flat().set_params(prior_scale=1.0, max_iter=1).fit(X, Y, trials=TRIALS)
    theta = model.posterior_.sample(5, 0)
    by_row = model.make_log_joint(X[EACH], LABELS)(theta)
    assert_allclose(model.make_log_joint(X, Y, trials=TRIALS)(theta), by_row)
    updated = clone(model)
    for some in (slice(12), slice(12, None)):
        updated.partial_fit(X[some], Y[some], trials=TRIALS[some])
    assert_allclose(updated.coef_, model.coef_, atol=0.1)


# --- offsets

OFFSET = 2.0 * RNG.normal(size=24)
CODES = (X[:, 0] + OFFSET + RNG.logistic(size=24) > 0).astype(int)
RESPONSES = X[:, 0] + OFFSET + 0.1 * RNG.normal(size=24)
NO_INTERVALS = {"max_iter": 1, "random_state": 0}


def averaged(model, offset):
    """Probabilities by draws of the posterior."""
    coef, intercept = model.sample_posterior(20_000, random_state=0)
    eta = coef @ X.T + np.reshape(intercept, (-1, 1)) + offset
    return expit(eta).mean(axis=0)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"prior_scale": 1.0, "fit_intercept": False},
        {"prior": "laplace"},
        {"prior_scale": 1.0, "family": "student_t", "max_iter": 1, "orbit": None},
        {"prior_scale": 1.0, "family": "laplace", "max_iter": 1, "orbit": None},
    ],
    ids=["learned scale", "no intercept", "laplace prior", "student_t", "laplace"],
)
def test_offsets_of_two_classes(parameters):
    model = flat().set_params(**parameters).fit(X, CODES, offset=OFFSET)
    proba = model.predict_proba(X, OFFSET)
    assert_allclose(proba[:, 1], averaged(model, OFFSET), atol=0.02)
    assert_allclose(np.exp(model.predict_log_proba(X, offset=OFFSET)), proba, 1e-6)
    shift = model.predict_latent(X, OFFSET)[0] - model.predict_latent(X, 0 * OFFSET)[0]
    assert_allclose(shift, OFFSET)
    low, high = model.predict_proba_interval(X, offset=OFFSET).T
    assert np.all((low < proba[:, 1]) & (proba[:, 1] < high))
    assert model.score(X, CODES, offset=OFFSET) > 0.7
    rows = sparse.csr_array(X)
    assert_allclose(model.predict_proba(rows, offset=OFFSET), proba)


def test_an_offset_is_in_the_evidence_and_the_fit():
    # Expectation propagation and the bound of the generic density agree.
    model = flat().fit(X, CODES, offset=OFFSET)
    assert model.remaining_kl_ < 0.1
    joint = model.make_log_joint(X, CODES, offset=OFFSET)
    theta = model.posterior_.sample(3, 0)
    eta = theta[:, :2] @ X.T + theta[:, 2:]
    moved = model.make_log_joint(X, CODES)
    gain = (CODES * OFFSET - np.logaddexp(0, eta + OFFSET) + np.logaddexp(0, eta)).sum(
        1
    )
    assert_allclose(joint(theta) - moved(theta), gain)


def test_a_constant_offset_moves_the_intercept_and_no_sharpening():
    settings = {"prior_scale": 1.0, "intercept_scale": 1e4, "sharpen": True}
    plain = flat().set_params(**settings).fit(X, CODES)
    model = flat().set_params(**settings).fit(X, CODES, offset=np.full(24, 2.0))
    assert_allclose(model.coef_, plain.coef_, atol=0.02)
    assert_allclose(model.intercept_ + 2.0, plain.intercept_, atol=0.02)
    assert_allclose(model.sharpening_, plain.sharpening_, rtol=0.02)


def test_trials_with_offsets():
    model = flat().fit(X, Y, trials=TRIALS, offset=OFFSET)
    each = flat().fit(X[EACH], LABELS, offset=OFFSET[EACH])
    assert_allclose(model.coef_, each.coef_, rtol=1e-6)
    score = model.score(X, Y, trials=TRIALS, offset=OFFSET)
    assert score == pytest.approx(model.score(X[EACH], LABELS, offset=OFFSET[EACH]))


def test_offsets_of_linear_regressions_are_taken_from_the_responses():
    model = Linear(**NO_INTERVALS)
    plain = clone(model).fit(X, RESPONSES - OFFSET)
    model.fit(X, RESPONSES, offset=OFFSET)
    assert model.elbo_ == plain.elbo_
    assert_allclose(model.predict(X, offset=OFFSET), plain.predict(X) + OFFSET)
    ends = model.predict_interval(X, offset=OFFSET) - plain.predict_interval(X)
    assert_allclose(ends, np.column_stack([OFFSET, OFFSET]))
    given = (X, RESPONSES), {"offset": OFFSET}
    density = plain.log_predictive_density(X, RESPONSES - OFFSET)
    assert_allclose(model.log_predictive_density(*given[0], **given[1]), density)
    assert model.score(*given[0], **given[1]) > 0.9
    theta = model.posterior_.sample(3, 0)
    joint = plain.make_log_joint(X, RESPONSES - OFFSET)(theta)
    assert_allclose(model.make_log_joint(*given[0], **given[1])(theta), joint)
    staged = list(model.staged_predict(X, offset=OFFSET))
    assert_allclose(staged[-1], model.predict(X, offset=OFFSET))


def test_offsets_with_groups():
    pytest.importorskip("formulaic")
    frame = pd.DataFrame({"dose": X[:, 0], "litter": np.arange(24) % 4})
    numbers = GroupedLinear(groups=["litter"], **NO_INTERVALS)
    plain = clone(numbers).fit(frame, RESPONSES - OFFSET)
    numbers.fit(frame, RESPONSES, offset=OFFSET)
    expected = plain.predict(frame) + OFFSET
    assert_allclose(numbers.predict(frame, offset=OFFSET), expected)
    assert numbers.score(frame, RESPONSES, offset=OFFSET) > 0.9
    frame["known"], frame["y"] = OFFSET, CODES
    classes = GroupedLogistic.from_formula(
        "y ~ dose + (1 | litter)",
        frame,
        offset="known",
        scale_prior={"litter": HalfNormalPrior(0.01)},
        **NO_INTERVALS,
    )
    assert classes.variance_components_["mean"].iloc[0] < 0.05
    proba = classes.predict_proba(frame, offset="known")
    assert_allclose(classes.predict_proba(frame, offset=OFFSET), proba)
    assert classes.score(frame, CODES, offset="known") > 0.7
    low, high = classes.predict_proba_interval(frame, offset=OFFSET).T
    assert np.all((low < proba[:, 1]) & (proba[:, 1] < high))
    assert_allclose(classes.predict_proba(frame), proba)
    with pytest.warns(UserWarning, match="told the offset of its rows"):
        classes.predict(frame.drop(columns="known"))


def test_predictions_warn_where_an_offset_is_missing():
    batches = flat().set_params(prior_scale=1.0, max_iter=1)
    batches.partial_fit(X[:12], CODES[:12], offset=OFFSET[:12])
    batches.partial_fit(X[12:], CODES[12:])
    numbers = Linear(**NO_INTERVALS)
    numbers.fit(X, RESPONSES, offset=OFFSET)
    own = r"request\(offset=True\)"
    match = f"told the offset of its rows.*set_predict_{own} and set_score_{own}"
    for model in (batches, numbers):
        with pytest.warns(UserWarning, match=match):
            model.predict(X)
        with pytest.raises(NotImplementedError, match="fitted with offsets"):
            model.to_onnx()


def test_offsets_that_are_refused():
    three = np.arange(24) % 3
    with pytest.raises(ValueError, match="offset must be None for more than two"):
        flat().fit(X, three, offset=OFFSET)
    for model in (Ordinal(random_state=0), flat()):
        model.set_params(prior_scale=1.0, max_iter=1).fit(X, three)
        with pytest.raises(ValueError, match="offset must be None for more than two"):
            model.predict_proba(X, offset=OFFSET)
    with pytest.raises(ValueError, match="trials must be None for 3 classes"):
        model.log_predictive_density(X, Y, trials=TRIALS)
    with pytest.raises(ValueError, match="offset must be finite; got nan in row 0"):
        flat().fit(X, CODES, offset=np.full(24, np.nan))
    with pytest.raises(ValueError, match="far as 1e.10. Offsets of classes are logits"):
        flat().fit(X, CODES, offset=np.full(24, 1e10))
    for offset, blocks in (
        (OFFSET, RowBlocks(lambda: [(X, RESPONSES)])),
        (None, RowBlocks(lambda: [(X, RESPONSES, np.ones(24), OFFSET)])),
    ):
        with pytest.raises(ValueError, match="yield responses less their offsets"):
            Linear().fit(blocks, offset=offset)


def test_offsets_come_within_blocks():
    model = flat().set_params(prior_scale=1.0, max_iter=1)
    expected = clone(model).fit(X, CODES, offset=OFFSET).coef_
    rows = RowBlocks(lambda: [(X, CODES, np.ones(24), OFFSET)])
    assert_allclose(model.fit(rows).coef_, expected, atol=0.05)
    with pytest.warns(UserWarning, match="told the offset of its rows"):
        model.predict(X)


def test_exported_models_take_offsets(tmp_path):
    frame = np.column_stack([X[:, 0], np.arange(24) % 4])
    grouped = GroupedLogistic(groups=[1], **NO_INTERVALS)
    numbers = Linear(**NO_INTERVALS)
    cases = (flat().set_params(max_iter=1), X, CODES), (grouped, frame, CODES)
    for k, (model, rows, y) in enumerate((*cases, (numbers, X, RESPONSES))):
        model.fit(rows, y, offset=OFFSET).export(tmp_path / f"plain_{k}.py")
        module = runpy.run_path(str(tmp_path / f"plain_{k}.py"))
        expected = model.predict(rows, offset=OFFSET)
        assert_allclose(module["predict"](rows, offset=OFFSET), expected)
        if k < 2:
            proba = module["predict_proba"](rows, offset=OFFSET)
            assert_allclose(proba, model.predict_proba(rows, offset=OFFSET))
