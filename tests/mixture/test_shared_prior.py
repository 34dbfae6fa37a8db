"""The prior that clusters share: q(B), q(tau), their bound, and what is learned."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import gamma
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import scale

from skboost.conjugate import (
    ConjugateTarget,
    GaussianMixtureModel,
    SharedMixtureModel,
    SharedPrior,
    combine,
    coordinate_ascent,
    start,
    sweeps,
)
from skboost.mixture import SVIGaussianMixture
from skboost.svi import ConstantRate, SVIState, absorb

TYPES = ["full", "tied", "diag", "spherical"]
IRIS = scale(load_iris().data)


def _begun(covariance_type="full", X=IRIS, n=3, **changed):
    """Target under one shared prior, and a start."""
    dim = X.shape[1]
    matrix = covariance_type in ("full", "tied")
    rate = {"full": np.eye(dim), "tied": np.eye(dim), "diag": np.ones(dim)}
    settings = {
        "clusters": "normal-wishart",
        "covariance_type": covariance_type,
        "alpha": np.full(n, 3.0),
        "center": X.mean(axis=0),
        "dof": (dim - 1.0 if matrix else 0.0) + 10.0,
        "rate": 3.0 * rate.get(covariance_type, np.ones(())),
    }
    settings |= changed or {"mean_precision": 1.0}
    tie = "mean_precision" in settings
    prior = SharedPrior.of(settings, tie, settings["dof"])
    model = GaussianMixtureModel(**settings)
    target = ConjugateTarget(model, model.rows(X), np.ones(len(X)), shared=prior)
    return target, start(target, "kmeans", np.random.default_rng(0))


def _ascended(target, natural, n):
    return coordinate_ascent(target, natural, n, -np.inf)


@pytest.mark.parametrize(
    ("covariance_type", "tied_means"),
    [("full", True), ("tied", False), ("diag", True), ("spherical", False)],
)
def test_the_bound_never_falls(covariance_type, tied_means):
    changed = {} if tied_means else {"clusters": "independent", "mean_variance": 9.0}
    target, natural = _begun(covariance_type, **changed)
    bounds = [_ascended(target, natural, n).bound for n in (1, 2, 3, 5, 11)]
    assert min(np.diff(bounds)) > -1e-9 * abs(bounds[0])
    assert bounds[-1] > bounds[0]


@pytest.mark.parametrize("covariance_type", TYPES)
def test_no_other_hyperparameters_have_a_better_bound(covariance_type):
    target, natural = _begun(covariance_type)
    natural = _ascended(target, natural, 4).natural
    best = target.prior.updated(natural)

    def bound(dof=1.0, rate=1.0, shape=1.0, other=1.0):
        scaled = type(best.scale)(best.scale.dof * dof, best.scale.rate * rate)
        tie = type(best.tie)(best.tie.shape * shape, best.tie.rate * other)
        moved = replace(best, scale=scaled, tie=tie)
        model = moved.model()
        # The assignments stay: what the rows say does not depend on B and tau.
        evidence = model.expect(natural, target.rows, target.weight).evidence
        return moved.elbo(model, natural, evidence)

    for name in ("dof", "rate", "shape", "other"):
        h = 1e-4
        low, middle, high = (bound(**{name: 1.0 + step}) for step in (-h, 0.0, h))
        assert (high - low) / (2 * h) == pytest.approx(0.0, abs=1e-2)
        assert middle > max(low, high)


def test_the_bound_is_just_below_the_evidence_by_quadrature():
    # One cluster in one dimension: given B and tau the evidence is in closed form.
    X = IRIS[:, :1]
    target, natural = _begun("full", X, n=1)
    bound = _ascended(target, natural, 30).bound

    def log_evidence(rate, tie):
        fixed = {"rate": np.array([[rate]]), "mean_precision": tie}
        settings = target.model.settings | fixed
        model = GaussianMixtureModel(**settings)
        resp = np.ones((len(X), 1))
        natural = model.start(target.rows, resp)
        return model.elbo(
            natural, model.expect(natural, target.rows, target.weight).evidence
        )

    # In logarithms both are smooth, and a sum over a grid is as good as any rule.
    u, v = np.linspace(-8.0, 6.0, 24), np.linspace(-16.0, 3.0, 24)
    logs = np.array([[log_evidence(np.exp(b), np.exp(t)) for t in v] for b in u])
    evidence = _summed_out(target.prior, logs, u, v)
    assert evidence - 0.3 < bound < evidence


def test_independent_means_have_their_own_prior():
    target, natural = _begun(clusters="independent", mean_variance=9.0)
    draws = target.model.sample(natural, 3, np.random.default_rng(0))
    means = draws["means"] - target.model.center
    near, far = (
        target.shared.log_density(draws | {"means": factor * means})
        for factor in (1.0, 2.0)
    )
    assert_allclose(near - far, 1.5 * (means**2).sum(axis=(1, 2)) / 9.0)


def _summed_out(prior, logs, u, v):
    """Logarithm of the integral over B = exp(u) and tau = exp(v) of one dimension."""
    (dof,), ((rate,),) = prior.scale_prior.dof, prior.scale_prior.rate[0]
    over = gamma(0.5 * dof, scale=2.0 / rate)
    logs = logs + (over.logpdf(np.exp(u)) + u)[:, None]
    logs = logs + gamma(0.5, scale=0.2).logpdf(np.exp(v)) + v
    return logsumexp(logs) + np.log((u[1] - u[0]) * (v[1] - v[0]))


def test_the_prior_without_its_hyperparameters_by_quadrature():
    target, natural = _begun("full", IRIS[:, :1], n=2)
    model = target.model
    draws = model.sample(natural, 1, np.random.default_rng(0))
    u, v = np.linspace(-8.0, 6.0, 48), np.linspace(-16.0, 3.0, 48)
    found = target.shared.log_density(draws | {"means": draws["means"] - model.center})

    def log_prior(rate, tie):
        fixed = {"rate": np.array([[rate]]), "mean_precision": tie}
        fixed = GaussianMixtureModel(**model.settings | fixed)
        weights = fixed.weights.log_density(fixed.weights.prior, draws)
        return (fixed.log_prior(draws) - weights)[0]

    logs = np.array([[log_prior(np.exp(b), np.exp(t)) for t in v] for b in u])
    assert found[0] == pytest.approx(_summed_out(target.prior, logs, u, v))


@pytest.mark.parametrize("covariance_type", ["tied", "diag"])
def test_several_runs_at_once_are_those_one_by_one(covariance_type):
    target, natural = _begun(covariance_type)
    other = start(target, "random_from_data", np.random.default_rng(1))
    prior = SharedPrior.of(target.model.settings, True)
    runs = prior.take([0, prior.n_runs - 1])
    rows = target.rows, target.weight, 5
    together, moved = sweeps(runs, [natural, other], *rows)
    for i, own in enumerate((natural, other)):
        (alone,), alone_moved = sweeps(runs.take([i]), [own], *rows)
        family = target.family
        assert_allclose(family.params(together[i]), family.params(alone), rtol=1e-7)
        assert_allclose(moved[i], alone_moved[0], rtol=1e-5)


# --- q(B) and q(tau) as factors of a model


def _with_factors(covariance_type, missing=False):
    """A model with hyperparameters as factors, q away from its optimum, and rows."""
    X = IRIS[::3].copy()
    if missing:
        X[::7, 1] = np.nan
    target, natural = _begun(covariance_type)
    model = SharedMixtureModel(target.shared, 0.0)
    rows, weight = model.rows(X), 1.0 + np.arange(len(X)) % 2
    natural = model.with_hyperparameters(natural, target.shared.updated(natural))
    for name in ("scale", "tie"):
        first, second = natural[name].values()
        moved = (1.3 * first, 0.8 * second)
        natural[name] = dict(zip(natural[name], moved, strict=True))
    return model, natural, rows, weight


@pytest.mark.parametrize(
    ("covariance_type", "missing"),
    [*((kind, False) for kind in TYPES), ("full", True), ("diag", True)],
)
def test_steps_are_natural_gradients_of_the_bound(covariance_type, missing):
    model, natural, rows, weight = _with_factors(covariance_type, missing)

    def bound(moved):
        return model.elbo(moved, model.expect(moved, rows, weight).evidence)

    begun = _begun()[0]
    kinds = {"scale": type(begun.shared.scale), "tie": type(begun.prior.tie)}
    for factor in model.factors[-2:]:
        name, own = factor.name, natural[factor.name]
        step = combine(1.0, factor.target(natural, None), -1.0, own)
        along = {key: (0.3 + 0.1 * i) * own[key] for i, key in enumerate(own)}

        def log_normaliser(a, b, own=own, along=along, step=step, kind=kinds[name]):
            moved = combine(1.0, own, a, along)
            return np.sum(kind(**combine(1.0, moved, b, step)).log_normaliser)

        # The slope is the Fisher information, which is the curvature of the logarithm
        # of the normaliser, between the direction and the step.
        h = 1e-3
        ends = [(a, b) for a in (-h, h) for b in (-h, h)]
        mixed = sum(np.sign(a * b) * log_normaliser(a, b) for a, b in ends) / (4 * h**2)
        up, down = (
            bound(natural | {name: combine(1.0, own, end, along)}) for end in (h, -h)
        )
        assert (up - down) / (2 * h) == pytest.approx(mixed, rel=1e-3)


def test_rows_of_a_stream_do_not_count_for_the_scale():
    model, natural, rows, weight = _with_factors("full")
    before = {name: natural[name] for name in ("scale", "tie")}
    state = SVIState(natural, weight=float(weight.sum()), step=1)
    after = absorb(state, model, rows, weight, ConstantRate(1e-12), None, 0)
    for name, own in before.items():
        factor = next(one for one in model.factors if one.name == name)
        end = factor.target(after.natural, None)
        # As many rows as before: half the way.
        for key, value in combine(0.5, own, 0.5, end).items():
            assert_allclose(after.natural[name][key], value, rtol=1e-12)


def test_batches_and_streams_learn_what_all_rows_say():
    X = np.random.default_rng(0).permutation(np.repeat(IRIS, 5, axis=0))
    X = X + 0.2 * np.random.default_rng(1).standard_normal(X.shape)
    whole, batches, stream = (SVIGaussianMixture(3, random_state=0) for _ in range(3))
    whole.fit(X)
    batches.set_params(batch_size=150, max_iter=5).fit(X)
    for part in np.array_split(X, 5):
        stream.partial_fit(part)
    for model in (batches, stream):
        found = np.trace(model.covariance_prior_), model.mean_precision_prior_
        known = np.trace(whole.covariance_prior_), whole.mean_precision_prior_
        assert_allclose(found, known, rtol=0.3)
    assert batches.elbo_ == pytest.approx(whole.elbo_, abs=30.0)


# --- what estimators learn


@pytest.mark.parametrize(
    ("load", "least"), [(load_iris, 0.88), (load_wine, 0.95)], ids=["iris", "wine"]
)
def test_groups_are_found(load, least):
    X, y = load(return_X_y=True)
    model = SVIGaussianMixture(3, random_state=0).fit(scale(X))
    assert adjusted_rand_score(y, model.predict(scale(X))) > least


@pytest.mark.parametrize(
    ("kind", "covariance_type"),
    [
        ("normal-wishart", "tied"),
        pytest.param("independent", "full", marks=pytest.mark.slow),
    ],
)
def test_units_do_not_matter(covariance_type, kind):
    settings = {"covariance_type": covariance_type, "mean_prior_type": kind}
    one, other = (
        SVIGaussianMixture(3, random_state=0, **settings).fit(c * IRIS[::5])
        for c in (1.0, 1000.0)
    )
    assert_allclose(other.covariance_prior_, 1e6 * one.covariance_prior_, rtol=1e-4)
    # Relative to the rows, or one over a variance of means.
    unit = 1e-6 if kind == "independent" else 1.0
    assert other.mean_precision_prior_ == pytest.approx(
        unit * one.mean_precision_prior_
    )


def test_given_priors_stay():
    given = {"mean_precision_prior": 0.3, "degrees_of_freedom_prior": 6.5}
    given |= {"weight_concentration_prior": 0.7, "mean_prior": np.ones(4)}
    model = SVIGaussianMixture(2, random_state=0, **given).fit(IRIS)
    assert model.mean_precision_prior_ == 0.3
    assert model.degrees_of_freedom_prior_ == 6.5
    assert model.weight_concentration_prior_ == 0.7
    assert_allclose(model.mean_prior_, 1.0)
    # The rate is in proportion to degrees of freedom, and below that of all rows.
    assert np.trace(model.covariance_prior_) < 6.5 * 4


def test_none_restores_the_priors_of_scikit_learn():
    model = SVIGaussianMixture(3, covariance_prior=None).fit(IRIS)
    assert_allclose(model.covariance_prior_, np.cov(IRIS.T), rtol=1e-8)
    assert model.degrees_of_freedom_prior_ == 4
    assert model.mean_precision_prior_ == 1.0
    assert model.weight_concentration_prior_ == pytest.approx(1 / 3)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_tied_values_do_not_draw_the_scale_to_zero(covariance_type):
    X = np.column_stack([IRIS[:, :2], np.repeat([0.0, 1.0, 5.0], 50)])
    model = SVIGaussianMixture(3, covariance_type=covariance_type, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X)
    assert np.isfinite(model.elbo_) and np.isfinite(model.score(X))
    matrices = np.atleast_1d(model.covariance_prior_)
    diagonal = np.diag(matrices) if matrices.ndim == 2 else matrices
    assert diagonal.min() > 1e-8
