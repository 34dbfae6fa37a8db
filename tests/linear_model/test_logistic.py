"""The posterior of logistic models, against importance sampling."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import cauchy, laplace, norm, t
from sklearn.linear_model import LogisticRegression

from skboost import MixturePosterior
from skboost.fitting import make_settings
from skboost.priors import NormalPrior, StudentTPrior
from skboost.strategies import GreedySearch

from ..kinds import Logistic, over
from .conftest import logistic_data

X, Y = logistic_data(15, [1.2], seed=5)
PRIORS = {"normal": norm, "laplace": laplace, "student_t": t(4), "cauchy": cauchy}


def log_joint(theta, prior="normal", scale=1.0, intercept_scale=10.0, weight=1.0):
    """Log joint at (coef, intercept), written anew."""
    eta = theta[:, :1] * X[:, 0] + theta[:, 1:]
    likelihood = (weight * (Y * eta - np.logaddexp(0.0, eta))).sum(axis=1)
    density = PRIORS[prior]
    weight = np.broadcast_to(weight, len(X))
    at_centre = theta[:, 1] + np.average(X[:, 0], weights=weight) * theta[:, 0]
    return (
        likelihood
        + density.logpdf(theta[:, 0] / scale)
        - np.log(scale)
        + density.logpdf(at_centre / intercept_scale)
        - np.log(intercept_scale)
    )


SETTINGS = {
    "normal": {"prior_scale": 1.0},
    "laplace": {"prior": "laplace", "prior_scale": 1.0},
    "student_t": {"prior": "student_t", "prior_scale": 1.0},
    "scaled": {"prior_scale": 0.4, "intercept_scale": 2.0},
    "tempered": {"temperature": 0.4, "prior_scale": 1.0},
    "weighted": {"prior_scale": 1.0, "weight": np.linspace(0.2, 2.0, len(X))},
    "low rank": {"family": "gaussian-low-rank", "prior_scale": 1.0},
    "diagonal": {"family": "gaussian-diag", "prior_scale": 1.0},
}


def in_the_density(settings):
    """The part of the settings that the log joint knows."""
    names = {"prior_scale": "scale", "temperature": "weight"}
    named = {names.get(name, name): value for name, value in settings.items()}
    return {name: value for name, value in named.items() if name != "family"}


@pytest.mark.filterwarnings("ignore::skboost.posterior.ImportanceWarning")
@over("name", SETTINGS, slow=["student_t", "diagonal"])
def test_the_posterior_is_reached_and_what_is_said_of_it_is_true(name):
    settings = dict(SETTINGS[name])
    density = partial(log_joint, **in_the_density(settings))
    weight = settings.pop("weight", None)
    fitted = Logistic(random_state=0, **settings)
    posterior = fitted.fit(X, Y, sample_weight=weight).posterior_
    found = posterior.evidence(density, n=4000, random_state=0)
    kl = found.log_evidence - found.elbo
    # Diagonal components add up to a correlated posterior only slowly.
    assert kl < (0.1 if name == "diagonal" else 0.03)
    # Talagrand: a shift of d standard deviations costs at least d^2 / 2 nats.
    sample = posterior.importance_weights(density, n=4000, random_state=0)
    share = np.exp(sample.log_weights - sample.log_weights.max())
    mean = np.average(sample.draws, axis=0, weights=share)
    std = np.sqrt(np.average((sample.draws - mean) ** 2, axis=0, weights=share))
    allowed = np.sqrt(2 * kl) + 4.0 / np.sqrt(sample.effective_sample_size)
    assert (np.abs(posterior.mean() - mean) < allowed * std).all()
    assert_allclose(posterior.std(), std, rtol=2 * allowed)
    error = np.hypot(fitted.elbo_se_, found.elbo_se)
    assert abs(fitted.elbo_ - found.elbo) < 4 * error + 1e-9
    # The evidence comes from draws of the fit, whose tails are a little light.
    error = np.hypot(fitted.remaining_kl_se_, np.hypot(error, found.log_evidence_se))
    assert abs(fitted.remaining_kl_ - kl) < 4 * error
    assert fitted.coef_.shape == (1, 1) and fitted.intercept_.shape == (1,)
    assert_allclose([*fitted.coef_[0], *fitted.intercept_], posterior.mixture.mean())


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gaussian", "laplace", "student_t"])
@pytest.mark.parametrize("objective", ["kl", "relbo"])
@pytest.mark.filterwarnings("ignore::skboost.objectives.DegenerateComponentWarning")
def test_every_family_gets_near(model, family, objective):
    options = {
        "family": family,
        "objective": objective,
        "tol": 0.0,
        "search": GreedySearch(128),
    }
    options |= {"prior_scale": 1.0}
    fitted = model(**options, max_iter=5).fit(X, Y)
    first = model(**options, max_iter=1).fit(X, Y).posterior_.mixture
    last, single = (
        one.evidence(log_joint, n=2000, random_state=0)
        for one in (fitted.posterior_, MixturePosterior(first))
    )
    assert last.log_evidence - last.elbo < 0.3
    assert last.elbo >= single.elbo - 4 * np.hypot(last.elbo_se, single.elbo_se)


@pytest.mark.parametrize(
    ("objects", "named"),
    [
        ({"prior": NormalPrior(2.0), "prior_scale": 3.0}, {"prior_scale": 6.0}),
        ({"prior": StudentTPrior(df=1.0)}, {"prior": "cauchy"}),
        ({"prior": NormalPrior([1.0, 2.0, 3.0])}, {"prior_scale": [1.0, 2.0, 3.0]}),
    ],
    ids=["normal", "cauchy", "per feature"],
)
def test_a_prior_object_says_the_same_as_its_name(model, data, objects, named):
    one, two = (model(max_iter=1, **each).fit(*data) for each in (objects, named))
    assert np.array_equal(one.posterior_.mean(), two.posterior_.mean())


def test_a_wide_prior_finds_the_maximum_likelihood(model):
    X, y = logistic_data(4000, [1.0, -0.5])
    fitted = model(prior_scale=1e3, intercept_scale=1e3, max_iter=1).fit(X, y)
    likely = LogisticRegression(C=np.inf, tol=1e-8).fit(X, y)
    # Posterior mean and mode differ by the order of 1 / n.
    assert_allclose(fitted.coef_, likely.coef_, atol=10 / len(X))
    assert_allclose(fitted.intercept_, likely.intercept_, atol=10 / len(X))
    weight = likely.predict_proba(X).prod(axis=1)
    design = np.column_stack([X, np.ones(len(X))])
    covariance = np.linalg.inv(design.T @ (weight[:, None] * design))
    assert_allclose(fitted.posterior_.covariance(), covariance, rtol=0.02, atol=1e-5)


def test_class_weights_are_sample_weights(model):
    X, y = logistic_data(60, [1.0], intercept=-2.0)
    labels = np.array(["no", "yes"])[y]
    balanced = dict(enumerate(len(y) / (2 * np.bincount(y))))
    named = {"no": 2.0, "yes": 0.5}
    for asked, weight in (("balanced", balanced), (named, {0: 2.0, 1: 0.5})):
        by_class = model(class_weight=asked).fit(X, labels)
        by_row = model().fit(X, y, sample_weight=[weight[code] for code in y])
        assert np.array_equal(by_class.posterior_.mean(), by_row.posterior_.mean())
        assert np.array_equal(by_class.posterior_.std(), by_row.posterior_.std())


def test_two_classes_are_not_a_special_case_of_three(model):
    # A third class that never occurs gets what the prior leaves it.
    X, y = logistic_data(40, [1.0])
    fitted = model(max_iter=1).partial_fit(X, y, classes=[0, 1, 2])
    probabilities = fitted.predict_proba(X)
    assert probabilities.shape == (40, 3)
    assert probabilities[:, 2].max() < 0.2
    assert_allclose(probabilities.sum(axis=1), 1.0)


def test_a_nearly_gaussian_posterior_needs_one_component(model):
    X, y = logistic_data(3000, [1.0, -0.5])
    fitted = model(max_iter=10, search=GreedySearch(512), prior_scale=1.0).fit(X, y)
    assert fitted.n_iter_ == 1
    assert fitted.converged_


@pytest.mark.parametrize(
    ("dim", "exact", "n_draws"),
    [(10, True, 512), (31, True, 2048), (31, False, 512), (60, True, 512)],
)
def test_draws_grow_where_they_tell_all_parameters_from_noise(dim, exact, n_draws):
    settings = make_settings({"n_draws": 512}, seed=0, dim=dim, exact=exact)
    assert settings.n_draws == n_draws
