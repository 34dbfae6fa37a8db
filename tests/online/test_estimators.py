"""Online estimators as scikit-learn users meet them."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import expit
from scipy.stats import norm
from scipy.stats import t as student_t
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import DataConversionWarning
from sklearn.preprocessing import scale

from skboost.priors import NoiseScalePrior
from skboost.strategies import PowerRate

from ..kinds import OnlineLinear, OnlineLogistic

ESTIMATORS = [OnlineLogistic, OnlineLinear]
CLASSIFIER, REGRESSOR = ESTIMATORS
METHODS = [
    (OnlineLogistic, {"method": "ngvi"}),
    (OnlineLogistic, {"method": "sva"}),
    (OnlineLogistic, {"method": "svb", "forgetting": 0.99}),
    (OnlineLinear, {}),
    (OnlineLinear, {"noise_scale": 0.7}),
    (OnlineLinear, {"noise_scale": 0.7, "method": "svb"}),
]


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X[:, :8]), y


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return scale(X), scale(y)


def data_for(cls, cancer, diabetes):
    return cancer if cls is OnlineLogistic else diabetes


@pytest.mark.parametrize(("cls", "params"), METHODS)
def test_a_fit_is_a_stream_of_batches(cls, params, cancer, diabetes):
    X, y = (part[:200] for part in data_for(cls, cancer, diabetes))
    whole = cls(**params).fit(X, y)
    pieces = cls(**params)
    for part in np.array_split(np.arange(len(y)), 20):
        keywords = {"classes": [0, 1]} if hasattr(whole, "classes_") else {}
        pieces = pickle.loads(pickle.dumps(pieces))
        pieces.partial_fit(X[part], y[part], **keywords)
    assert_array_equal(pieces.coef_, whole.coef_)
    assert_array_equal(pieces.coef_std_, whole.coef_std_)
    assert_array_equal(pieces.averaged_coef_, whole.averaged_coef_)
    assert pieces.cumulative_loss_ == whole.cumulative_loss_
    assert pieces.n_seen_ == len(y)


@pytest.mark.parametrize(("cls", "params"), METHODS)
def test_both_kinds_answer_the_same_questions(cls, params, cancer, diabetes):
    X, y = (part[:120] for part in data_for(cls, cancer, diabetes))
    model = cls(**params).fit(X, y)
    coef, intercept, *noise = model.sample_posterior(12_000, random_state=0)
    assert_allclose(coef.std(axis=0), np.ravel(model.coef_std_), rtol=0.05)
    error = 5.0 * coef.std(axis=0) / np.sqrt(len(coef))
    assert (np.abs(coef.mean(axis=0) - np.ravel(model.coef_)) < error).all()
    low, high = model.coef_interval(0.9).reshape(-1, 2).T
    assert_allclose(((coef > low) & (coef < high)).mean(axis=0), 0.9, atol=0.01)
    eta = X[:20] @ coef.T + intercept
    mean, std = model.predict_latent(X[:20])
    assert (np.abs(eta.mean(axis=1) - mean) < 5.0 * std / np.sqrt(len(coef))).all()
    assert_allclose(eta.std(axis=1), std, rtol=0.05)
    given = (
        norm.pdf(y[:20, None], eta, *noise)
        if noise
        else expit((2 * y[:20, None] - 1) * eta)
    )
    found = np.exp(model.log_predictive_density(X[:20], y[:20]))
    error = 5.0 * given.std(axis=1) / np.sqrt(len(coef))
    assert (np.abs(found - given.mean(axis=1)) < error).all()


def test_the_cumulative_loss_is_that_of_the_mean_before_each_row(cancer):
    X, y = cancer
    model, total = OnlineLogistic(), 0.0
    model.partial_fit(X[:1], y[:1], classes=[0, 1])
    total += np.log(2.0)
    for i in range(1, 40):
        eta = X[i] @ model.coef_[0] + model.intercept_[0]
        total += np.logaddexp(0.0, eta) - y[i] * eta
        model.partial_fit(X[i : i + 1], y[i : i + 1])
    assert model.cumulative_loss_ == pytest.approx(total, rel=1e-12)


def test_fixed_noise_is_the_closed_form(diabetes):
    X, y = diabetes
    model = OnlineLinear(noise_scale=0.7, prior_scale=2.0)
    for part in np.array_split(np.arange(len(y)), 100):
        model.partial_fit(X[part], y[part])
    X1 = np.hstack([X, np.ones((len(y), 1))])
    precision = np.diag(np.r_[np.full(10, 0.25), 0.01]) + X1.T @ X1 / 0.49
    mean = np.linalg.solve(precision, X1.T @ y / 0.49)
    covariance = np.linalg.inv(precision)
    assert_allclose(model.posterior_.mean(), mean, atol=1e-8, rtol=0)
    assert_allclose(model.posterior_.covariance(), covariance, atol=1e-8, rtol=0)
    assert_allclose(np.r_[model.coef_, model.intercept_], mean, atol=1e-8, rtol=0)
    std = np.sqrt(0.49 + np.einsum("ij,jk,ik->i", X1, covariance, X1))
    found = model.predict(X, return_std=True)
    assert_allclose(found, (X1 @ mean, std), atol=1e-8, rtol=0)


def test_inferred_noise_is_student_t(diabetes):
    X, y = diabetes
    model = OnlineLinear(noise_prior=NoiseScalePrior(4.0, 0.5**0.5)).fit(X, y)
    X1 = np.hstack([X, np.ones((len(y), 1))])
    precision = np.diag(np.r_[np.ones(10), 0.01]) + X1.T @ X1
    mean = np.linalg.solve(precision, X1.T @ y)
    shape = 2.0 + 0.5 * len(y)
    rate = 1.0 + 0.5 * (y @ y - mean @ precision @ mean)
    inverse = np.linalg.inv(precision)
    std = np.sqrt(rate / (shape - 1.0) * np.diag(inverse))
    assert_allclose(model.coef_std_, std[:10], rtol=1e-9)
    assert_allclose(model.posterior_.std(), std, rtol=1e-6)
    assert_allclose(model.noise_scale_, np.sqrt(rate / shape), rtol=1e-10)
    spread = 1.0 + np.einsum("ij,jk,ik->i", X1, inverse, X1)
    predictive = student_t(2 * shape, X1 @ mean, np.sqrt(rate / shape * spread))
    assert_allclose(
        model.log_predictive_density(X, y), predictive.logpdf(y), atol=1e-9, rtol=0
    )
    assert_allclose(
        model.predict_interval(X, 0.8).T, predictive.interval(0.8), atol=1e-9, rtol=0
    )
    found, deviation = model.predict(X, return_std=True)
    assert_allclose(deviation, predictive.std(), rtol=1e-9)
    median = model.predict_quantiles(X, [0.5])[:, 0]
    assert_allclose(median, found, atol=1e-12, rtol=0)


@pytest.mark.parametrize(("n_columns", "full"), [(300, True), (301, False)])
def test_many_columns_have_a_diagonal_covariance_by_default(n_columns, full):
    X = np.random.default_rng(0).normal(size=(4, n_columns))
    model = OnlineLogistic().fit(X, [0, 1, 1, 0])
    covariance = model.posterior_.covariance()
    assert np.any(covariance != np.diag(np.diag(covariance))) == full


@pytest.mark.parametrize(
    ("as_rows", "covariance"),
    [(np.asarray, "full"), (sparse.csr_matrix, "diag"), (sparse.csr_array, "full")],
)
def test_several_classes_are_each_against_the_rest(as_rows, covariance):
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    order = np.random.default_rng(0).permutation(len(y))
    X, names = X[order], np.array(["setosa", "versi", "virgi"])[y[order]]
    model = OnlineLogistic(covariance=covariance)
    model.fit(as_rows(X), names)
    for k, name in enumerate(model.classes_):
        one = OnlineLogistic(covariance=covariance)
        one.fit(X, names == name)
        assert_allclose(model.coef_[k], one.coef_[0], atol=1e-12, rtol=0)
    p = model.predict_proba(as_rows(X))
    assert_allclose(p.sum(axis=1), 1.0, atol=1e-12, rtol=0)
    found = model.predict(as_rows(X))
    assert_array_equal(found, model.classes_[p.argmax(axis=1)])
    assert model.predict_proba_interval(as_rows(X)).shape == (150, 3, 2)
    total, aleatoric, epistemic = model.predict_uncertainty(as_rows(X))
    assert np.all(aleatoric <= total + 0.02) and np.all(epistemic >= 0.0)
    assert model.posterior_.dim == 15
    assert model.sample_posterior(4, random_state=0)[0].shape == (4, 3, 4)


@pytest.mark.parametrize(
    ("cls", "as_rows"), [(CLASSIFIER, sparse.csr_matrix), (REGRESSOR, np.asarray)]
)
def test_nan_names_its_row_and_costs_nothing(cls, as_rows, cancer, diabetes):
    X, y = data_for(cls, cancer, diabetes)
    model = cls().partial_fit(X[:50], y[:50])
    before = model.coef_.copy(), model.cumulative_loss_
    bad = X[50:60].copy()
    bad[7, 2] = np.nan
    with pytest.raises(ValueError, match="X must be finite; got NaN, first in row 7"):
        model.partial_fit(as_rows(bad), y[50:60])
    if cls is OnlineLinear:
        wrong = y[50:60].copy()
        wrong[3] = np.inf
        with pytest.raises(ValueError, match="y must be .* infinity, first in row 3"):
            model.partial_fit(as_rows(X[50:60]), wrong)
        wrong = wrong.astype(object)
        wrong[3] = None
        with pytest.raises(ValueError, match="y must be .* NaN, first in row 3"):
            model.partial_fit(as_rows(X[50:60]), wrong)
    assert_array_equal(model.coef_, before[0])
    assert model.cumulative_loss_ == before[1] and model.n_seen_ == 50
    model.partial_fit(X[50:60], y[50:60])


def test_bad_batches_are_refused_and_cost_nothing(cancer):
    X, y = cancer
    model = OnlineLogistic().partial_fit(X[:50], y[:50])
    before = model.coef_
    with pytest.raises(ValueError, match="partial_fit"):
        # A first batch of one class needs the classes.
        model.fit(X[:5], np.zeros(5, dtype=int))
    with pytest.raises(ValueError, match="0 sample"):
        model.partial_fit(X[:0], y[:0])
    with pytest.raises(ValueError, match="expecting 8 features"):
        model.partial_fit(X[:5, :3], y[:5])
    with pytest.raises(ValueError, match="among the classes"):
        model.partial_fit(X[:5], np.full(5, 7))
    with pytest.raises(ValueError, match="classes must stay"):
        model.partial_fit(X[:5], y[:5], classes=[0, 1, 2])
    model.set_params(fit_intercept=False)
    with pytest.raises(ValueError, match="goes on with the same model"):
        model.partial_fit(X[:5], y[:5])
    assert_array_equal(model.coef_, before)


def test_divergence_names_the_step_and_a_lower_rate_goes_on(diabetes):
    X, y = diabetes
    model = OnlineLinear(method="sva", noise_scale=0.1)
    model.partial_fit(X[:20], y[:20])
    before = model.coef_
    model.set_params(learning_rate=10.0)
    with pytest.raises(
        FloatingPointError, match=r"at step \d+.*learning_rate below 10"
    ):
        model.partial_fit(X, y)
    assert_array_equal(model.coef_, before)
    assert model.n_seen_ == 20
    model.set_params(learning_rate=PowerRate(1e-3, -0.5)).partial_fit(X, y)
    assert model.n_seen_ == 462


@pytest.mark.parametrize(
    ("cls", "params", "message"),
    [
        (CLASSIFIER, {"method": "ewa"}, "method"),
        (CLASSIFIER, {"method": "sva", "covariance": "full"},
         "covariance='full' needs a method that has it; got method='sva'"),
        (CLASSIFIER, {"method": "svb", "learning_rate": np.inf},
         "method='svb' needs a finite learning_rate"),
        (REGRESSOR, {"method": "ngvi"}, "noise_scale='infer' needs method='ewa'"),
        (REGRESSOR, {"noise_prior": (2.0, 1.0)}, "instance of 'skboost.priors.Noise"),
        (REGRESSOR, {"noise_prior": NoiseScalePrior(1.0, 0.0)}, "scale of NoiseScale"),
        (REGRESSOR, {"noise_prior": NoiseScalePrior()}, "a number for its scale"),
    ],
)  # fmt: skip
def test_parameters_that_mean_nothing(cls, params, message, cancer):
    with pytest.raises(ValueError, match=message):
        cls(**params).fit(*cancer)


def test_weights(cancer, diabetes):
    X, y = diabetes
    weight = np.arange(len(y)) % 3
    weighted = OnlineLinear().fit(X, y, sample_weight=weight)
    again = np.repeat(np.arange(len(y)), weight)
    repeated = OnlineLinear().fit(X[again], y[again])
    assert_allclose(weighted.coef_, repeated.coef_, atol=1e-12, rtol=0)
    assert weighted.noise_scale_ == pytest.approx(repeated.noise_scale_)
    X, y = cancer
    weight = np.arange(len(y)) % 2
    weighted = OnlineLogistic().fit(X, y, sample_weight=weight)
    left_out = OnlineLogistic().fit(X[1::2], y[1::2])
    assert_array_equal(weighted.coef_, left_out.coef_)


def test_sparse_averages_are_refused_where_they_are_not_kept(cancer):
    X, y = cancer
    model = OnlineLogistic(covariance="diag", learning_rate=50.0)
    model.fit(sparse.csr_matrix(X), y)
    with pytest.raises(AttributeError, match="not kept for sparse rows"):
        _ = model.averaged_coef_
    model.set_params(learning_rate="auto").fit(sparse.csr_matrix(X), y)
    dense = clone(model).fit(X, y)
    assert_allclose(model.averaged_coef_, dense.averaged_coef_, atol=1e-12, rtol=0)


def test_duplicate_entries_of_sparse_rows_add_up(cancer):
    X, y = cancer
    X = sparse.csr_matrix(np.round(X[:100], 3))
    twice = sparse.csr_matrix(
        (np.repeat(X.data, 2) / 2, np.repeat(X.indices, 2), 2 * X.indptr), X.shape
    )
    params = {"covariance": "diag"}
    found = OnlineLogistic(**params).fit(twice, y[:100])
    assert twice.nnz == 2 * X.nnz
    one = OnlineLogistic(**params).fit(X, y[:100])
    assert_allclose(found.coef_, one.coef_, atol=1e-12, rtol=0)


def test_minibatches_passes_and_order(cancer):
    X, y = cancer
    model = OnlineLogistic(batch_size=32).fit(X, y)
    assert model.score(X, y) > 0.9
    twice = OnlineLogistic(n_passes=2).fit(X, y)
    by_hand = OnlineLogistic().fit(X, y).partial_fit(X, y)
    assert_array_equal(twice.coef_, by_hand.coef_)
    assert twice.n_seen_ == 2 * len(y)
    a, b = (
        OnlineLogistic(shuffle=True, random_state=seed).fit(X, y) for seed in (0, 0)
    )
    assert_array_equal(a.coef_, b.coef_)
    assert not np.array_equal(a.coef_, by_hand.coef_)


def test_forgetting_follows_what_changes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 3))
    truth = np.where(np.arange(1000)[:, None] < 500, [2.0, 0.0, -1.0], [-2.0, 1.0, 0])
    y = (X * truth).sum(axis=1) + 0.3 * rng.standard_normal(1000)
    keeps = OnlineLinear().fit(X, y)
    forgets = OnlineLinear(forgetting=0.98).fit(X, y)
    assert np.abs(forgets.coef_ - truth[-1]).max() < 0.2
    assert np.abs(keeps.coef_ - truth[-1]).max() > 1.0
    assert forgets.cumulative_loss_ < keeps.cumulative_loss_


def test_densities_need_one_number_for_each_row_and_quantiles_need_levels(diabetes):
    X, y = diabetes
    model = OnlineLinear().fit(X, y)
    with pytest.warns(DataConversionWarning):
        assert model.log_predictive_density(X[:4], np.zeros((4, 1))).shape == (4,)
    for wrong in (np.zeros(1), [0.0, np.nan, 0.0, 0.0]):
        with pytest.raises(ValueError, match="NaN|inconsistent numbers"):
            model.log_predictive_density(X[:4], wrong)
    with pytest.raises(ValueError, match="level must lie strictly .* Use 0.9"):
        model.predict_interval(X, "wide")
    for wrong in ([], "a"):
        with pytest.raises(ValueError, match="quantiles must be probabilities"):
            model.predict_quantiles(X, wrong)


@pytest.mark.parametrize("batch_size", [None, 16])
def test_a_posterior_that_floating_point_can_not_hold_is_refused(batch_size):
    # Three columns that differ in their eighth digit, far from zero.
    rng = np.random.default_rng(0)
    X = 1e6 + np.column_stack([np.zeros(12), rng.normal(size=12) * 1e-3, np.zeros(12)])
    y = 1e6 + rng.normal(size=12)
    sound = OnlineLinear(batch_size=batch_size).fit(X - 1e6, y - 1e6)
    before = sound.coef_.copy()
    with pytest.raises(ValueError, match="singular in floating .* Centre and scale"):
        # Every sum is exact, so that the prior is lost in rounding on any machine; the
        # first row has its zero where it is, from which columns are measured.
        sound.fit(np.vstack([np.zeros(3), np.full((4, 3), 2.0**30)]), np.zeros(5))
    assert_array_equal(sound.coef_, before)
    try:
        sound.fit(X, y)
    except ValueError as error:
        assert "singular in floating point" in str(error)
        assert np.array_equal(sound.coef_, before)
    assert np.isfinite(sound.coef_std_).all()
    assert np.isfinite(sound.posterior_.std()).all()


@pytest.mark.parametrize(
    ("cls", "params"), [*METHODS[::2], METHODS[5], (CLASSIFIER, {"batch_size": 32})]
)
def test_origins_of_columns_and_responses(cls, params):
    """A year, a Julian day or seconds since 1970 in place of a centred column."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1.0, 1.0, 1500), rng.normal(size=1500)])
    eta = X @ [1.5, 0.5]
    y = eta + 0.5 * rng.normal(size=1500)
    y = y if cls is REGRESSOR else np.digitize(eta + rng.logistic(size=1500), [0.0])
    found = []
    for n_pieces, origin in ((1, 0.0), (7, 2020.0), (1, 2_459_000.0), (7, 1.6e9)):
        far, of_y = X + [origin, 0.0], y + (origin if cls is REGRESSOR else 0)
        model = cls(**params)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for some in np.array_split(np.arange(1500), n_pieces):
                model.partial_fit(far[some], of_y[some])
        coef, intercept, *_ = model.sample_posterior(4000, random_state=0)
        mean, std = model.predict_latent(far[:50])
        drawn = far[:50] @ coef.T + intercept
        assert_allclose(drawn.std(axis=1), std, rtol=0.1)
        assert np.abs(drawn.mean(axis=1) - mean).max() < 0.1 * std.min() + 1e-6
        whole = np.r_[np.ravel(model.coef_), model.intercept_]
        assert_allclose(model.posterior_.mean(), whole, rtol=1e-12)
        assert_allclose(
            model.posterior_.std()[:2], np.ravel(model.coef_std_), rtol=1e-6
        )
        noise = getattr(model, "noise_scale_", 1.0)
        mean = mean - (origin if cls is REGRESSOR else 0.0)
        found.append(
            np.r_[noise, np.ravel(model.coef_), np.ravel(model.coef_std_), mean]
        )
    near, *others = found
    for other in others:
        # Noise and effects; steps of SVB depend on where they begin.
        assert_allclose(other[:3], near[:3], rtol=0.05)
        assert_allclose(other, others[0], rtol=1e-3, atol=1e-3)


DIAGONAL = {"covariance": "diag", "method": "svb", "noise_scale": 0.7}


@pytest.mark.parametrize(
    ("cls", "params", "as_rows"),
    [(CLASSIFIER, {}, np.asarray), (REGRESSOR, DIAGONAL, sparse.csr_matrix)],
)
def test_columns_that_are_too_large_for_the_prior_are_named(
    cls, params, as_rows, cancer, diabetes
):
    X, y = data_for(cls, cancer, diabetes)
    large = as_rows(X * np.where(np.arange(X.shape[1]) == 3, 100.0, 1.0))
    with pytest.warns(UserWarning, match=r"prior_scale=1.0 gives .*\['x3', .*Standard"):
        model = cls(**params).partial_fit(large[:400], y[:400])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Once for a stream; not where columns are standardised, or the prior knows.
        model.partial_fit(large[400:], y[400:])
        cls(**params).fit(as_rows(X), y)
        known = np.where(np.arange(X.shape[1]) == 3, 0.01, 1.0)
        cls(prior_scale=known, **params).fit(large, y)
    fitted = cls(**params).fit(X, y)
    before = fitted.coef_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="Standardise X"):
            fitted.fit(large, y)
    assert_array_equal(fitted.coef_, before)


def test_an_exact_stream_bears_any_scale(diabetes):
    X, y = diabetes
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        large = REGRESSOR().fit(100.0 * X, y)
    wide = REGRESSOR(prior_scale=100.0).fit(X, y)
    assert_allclose(100.0 * large.coef_, wide.coef_, rtol=1e-6)


class Parts:
    """Counts the tasks of a fit, and stops after so many parts of a pass."""

    def __init__(self, stop_after=None):
        self.ended, self.stop_after = [], stop_after

    def setup(self, estimator, context):
        self.ended.clear()

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.ended.append(context.task_name)
        return self.ended.count("rows") == self.stop_after

    def teardown(self, estimator, context):
        pass


@pytest.mark.parametrize("batch_size", [None, 30])
def test_callbacks_hear_of_a_long_pass(batch_size, cancer, monkeypatch):
    X, y = cancer
    settings = {"batch_size": batch_size, "n_passes": 2}
    plain = CLASSIFIER(**settings).fit(X, y)
    monkeypatch.setattr("skboost.linear_model._online._PART", 200)
    heard, stopped = Parts(), Parts(stop_after=2)
    model = CLASSIFIER(**settings).set_callbacks(heard).fit(X, y)
    n = 3 if batch_size is None else 4
    assert heard.ended == 2 * [*n * ["rows"], "pass"] + ["fit"]
    assert_array_equal(model.coef_, plain.coef_)
    model = CLASSIFIER(**settings).set_callbacks(stopped).fit(X, y)
    assert model.n_seen_ == (400 if batch_size is None else 360)


def test_the_regret_of_sva_is_within_its_bound(rate=0.1):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (300, 3))
    y = (X @ [2.0, -1.0, 0.0] + rng.logistic(size=300) > 0.0).astype(int)
    model = OnlineLogistic(
        method="sva", learning_rate=rate, prior_scale=0.5, intercept_scale=1.0
    ).fit(X, y)
    posterior = model.posterior_
    rows = np.column_stack([X, np.ones(300)])
    mean, std = posterior.mean(), np.sqrt(np.diag(posterior.covariance()))
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    spread = np.sqrt(rows**2 @ std**2)
    eta = (rows @ mean)[:, None] + spread[:, None] * nodes
    losses = np.logaddexp(0.0, eta) - y[:, None] * eta
    expected = np.sum(losses @ weights) / weights.sum()
    bound = model.regret_bound(X)
    assert model.cumulative_loss_ - expected <= bound
    scale = np.array([0.5, 0.5, 0.5, 1.0])
    kl = 0.5 * ((mean**2 + std**2) / scale**2 - 1.0) - np.log(std / scale)
    longest = np.max(np.sum(rows**2, axis=1))
    steps = (1.0 + 2.0 / np.pi) * longest * 300
    assert bound == pytest.approx(rate * steps + kl.sum() / rate)
    assert model.regret_bound(sparse.csr_array(X)) == pytest.approx(bound)


def test_a_regret_bound_is_refused_where_the_theorem_does_not_speak():
    X, y = np.array([[0.0], [1.0]]), [0, 1]
    for params in ({"method": "svb"}, {"method": "sva", "forgetting": 0.9}):
        model = OnlineLogistic(learning_rate=0.1, **params).fit(X, y)
        with pytest.raises(ValueError, match="regret_bound needs"):
            model.regret_bound(X)
