"""The conjugate model of matrix factorisation against brute force and quadrature."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import gamma

from skboost import SVIGaussianMixture
from skboost.conjugate import (
    Entries,
    MatrixFactorizationModel,
    ObservedEntries,
    natural_step,
    predicted_entries,
    predicted_rows,
)
from skboost.conjugate.factorization import GammaPrecisions, WeightedEntries, worth_one
from skboost.svi import NaturalGradient, PerEmbedding, as_learning_rate

# Standard deviations of noise and prior; None is inferred.
SCALES = [(0.4, 1.5), (None, 1.5), (None, None)]


def gappy(n_rows=9, n_columns=6, rank=2, seed=0, share=0.6):
    """A matrix of low rank with noise and gaps."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, rank)) @ rng.standard_normal((rank, n_columns))
    X += 0.3 * rng.standard_normal(X.shape)
    X[rng.random(X.shape) > share] = np.nan
    return X


def ascent(model, X, epochs=1, seed=0, **settings):
    """Engine, state and history of some epochs."""
    settings = {"learning_rate": as_learning_rate(1.0)} | settings
    start = model.start(np.random.default_rng(seed))
    engine = NaturalGradient(model, ObservedEntries(Entries.of(X)), start, **settings)
    state, info = engine.step(engine.initial)
    history = [info]
    for _ in range(epochs - 1):
        state, info = engine.step(state)
        history.append(info)
    return engine, state, history


def weighted(X, weight=None):
    return WeightedEntries(ObservedEntries(Entries.of(X)), weight)


def augmented(moments):
    """Means and covariances with the constants, dense."""
    n, d = moments.augmented.shape
    covariance = np.zeros((n, d, d))
    covariance[np.ix_(range(n), moments.free, moments.free)] = moments.covariance
    return moments.augmented, covariance


def seconds(moments):
    mean, covariance = augmented(moments)
    return mean[:, :, None] * mean[:, None, :] + covariance


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("scales", SCALES)
def test_the_bound_never_falls(biases, scales):
    model = MatrixFactorizationModel((9, 6), 3, *scales, biases=biases)
    _, _, history = ascent(model, gappy(), 40)
    for info in history[1:]:
        assert info.gain >= -1e-9 * abs(info.elbo)


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize(("biases", "share"), [(False, 0.15), (True, 0.9)])
def test_the_bound_is_the_sum_of_its_parts_written_out(biases, scales, share):
    X = gappy(share=share)
    model = MatrixFactorizationModel(X.shape, 2, *scales, biases=biases)
    engine, state, _ = ascent(model, X, 3)
    natural = state.natural
    sides = [model.rows.moments(natural["rows"])]
    sides.append(model.columns.moments(natural["columns"]))
    U, V = map(seconds, sides)
    mean_u, mean_v = (augmented(side)[0] for side in sides)
    squares = 0.0
    for i, j in zip(*np.nonzero(~np.isnan(X)), strict=True):
        squares += X[i, j] ** 2 - 2.0 * X[i, j] * mean_u[i] @ mean_v[j]
        squares += np.sum(U[i] * V[j])
    precision, log_precision = model.noise.expected(natural)
    n = np.sum(~np.isnan(X))
    found = 0.5 * n * (log_precision - np.log(2 * np.pi)) - 0.5 * precision * squares
    for side in sides:
        scales = model.scales["rows" if side is sides[0] else "columns"]
        shared, log_shared = scales.expected(natural)
        for mean, covariance in zip(side.mean, side.covariance, strict=True):
            found -= 0.5 * shared @ (np.diag(covariance) + mean**2)
            found += 0.5 * (np.linalg.slogdet(covariance)[1] + len(mean))
            found += 0.5 * np.sum(log_shared)
        found -= scales.kl(natural)
    found -= model.noise.kl(natural)
    assert_allclose(engine.elbo(state), found, rtol=1e-11)


@pytest.mark.parametrize("biases", [False, True])
def test_each_factor_is_a_regression_on_the_other_side(biases):
    X = gappy()
    model = MatrixFactorizationModel(X.shape, 2, 0.4, 1.5, biases=biases)
    _, state, _ = ascent(model, X, 4)
    columns = model.columns.moments(state.natural["columns"])
    found = model.folded_in(state.natural, Entries.of(X))
    second, mean = seconds(columns), columns.augmented
    free = [0, 1, 2] if biases else [0, 1]
    for i, row in enumerate(X):
        seen = np.flatnonzero(~np.isnan(row))
        precision, first = np.eye(len(free)) / 1.5**2, np.zeros(len(free))
        for j in seen:
            precision += second[j][np.ix_(free, free)] / 0.4**2
            offset = second[j][free, 3] if biases else 0.0
            first += (row[j] * mean[j][free] - offset) / 0.4**2
        assert_allclose(found.covariance[i], np.linalg.inv(precision), rtol=1e-9)
        assert_allclose(found.mean[i], np.linalg.solve(precision, first), rtol=1e-8)


@pytest.mark.parametrize("biases", [False, True])
def test_predictions_have_the_moments_of_draws(biases):
    X = gappy()
    model = MatrixFactorizationModel(X.shape, 2, 0.4, 1.5, biases=biases)
    _, state, _ = ascent(model, X, 3)
    sides = [getattr(model, s).moments(state.natural[s]) for s in ("rows", "columns")]
    pairs = np.array([0, 3, 8]), np.array([5, 0, 2])
    mean, variance = predicted_entries(*sides, pairs)
    rng, n = np.random.default_rng(1), 40_000
    for k, (i, j) in enumerate(zip(*pairs, strict=True)):
        draws = []
        for side, index in zip(sides, (i, j), strict=True):
            own = np.tile(side.augmented[index], (n, 1))
            own[:, side.free] = rng.multivariate_normal(
                side.mean[index], side.covariance[index], n
            )
            draws.append(own)
        products = np.sum(draws[0] * draws[1], axis=1)
        assert abs(products.mean() - mean[k]) < 4.0 * products.std() / np.sqrt(n)
        squares = (products - products.mean()) ** 2
        assert abs(squares.mean() - variance[k]) < 4.0 * squares.std() / np.sqrt(n)
    whole = predicted_rows(*sides)
    assert_allclose(whole[0][pairs], mean, rtol=1e-12)
    assert_allclose(whole[1][pairs], variance, rtol=1e-12)


def test_the_divergence_of_precisions_is_that_of_quadrature():
    precisions = GammaPrecisions("noise", worth_one(np.array([0.6, 4.0])), None)
    own = {"shape": np.array([2.5, 0.7]), "rate": np.array([1.2, 4.0])}
    expected = 0.0
    for a, b, d in zip(own["shape"], own["rate"], [0.3, 2.0], strict=True):
        q, p = gamma(a, scale=1.0 / b), gamma(0.5, scale=1.0 / d)
        expected += quad(
            lambda t, q=q, p=p: q.pdf(t) * (q.logpdf(t) - p.logpdf(t)), 0.0, np.inf
        )[0]
    assert_allclose(precisions.kl({"noise": own}), expected, rtol=1e-6)


def test_own_priors_that_are_all_alike_are_the_shared_prior():
    X = gappy()
    shared = MatrixFactorizationModel(X.shape, 2, None, 1.5)
    own = {
        name: {"precision": np.tile(np.eye(2) / 1.5**2, (n, 1, 1)), "first": zero}
        for name, n in zip(("rows", "columns"), X.shape, strict=True)
        for zero in [np.zeros((n, 2))]
    }
    apart = MatrixFactorizationModel(X.shape, 2, None, 1.5, priors=own)
    elbos = [ascent(model, X, 5)[1].elbo for model in (shared, apart)]
    assert_allclose(*elbos, rtol=1e-12)


@pytest.mark.parametrize("share", [0.15, 0.9])
def test_sums_of_weighted_entries_are_linear_in_the_weights(share):
    X = gappy(share=share)
    observed = ObservedEntries(Entries.of(X))
    model = MatrixFactorizationModel(X.shape, 2, biases=True)
    moments = model.rows.moments(model.start(np.random.default_rng(3))["rows"])
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((2, len(observed)))
    weights = (first, second, 2.0 * first + 3.0 * second)
    one, two, both = (WeightedEntries(observed, weight) for weight in weights)
    mixed = 2.0 * one + 3.0 * two
    found, expected = (w.sums("columns", moments) for w in (mixed, both))
    parts = (w.sums("columns", moments) for w in (one, two))
    for own, whole, a, b in zip(found, expected, *parts, strict=True):
        assert_allclose(own, whole, rtol=1e-12, atol=1e-12)
        assert_allclose(own, 2.0 * a + 3.0 * b, rtol=1e-12, atol=1e-12)
    assert_allclose((mixed.total, mixed.squares), (both.total, both.squares))


def test_noise_halves_a_precision_at_most():
    X = gappy(30, 20)
    model = MatrixFactorizationModel(X.shape, 2, 0.4, 1.5)
    natural = model.updated(
        model.start(np.random.default_rng(0)), {"entries": weighted(X)}
    )
    noise = 30.0 * np.random.default_rng(0).standard_normal(np.sum(~np.isnan(X)))
    sums, shaken = ({"entries": weighted(X, w)} for w in (None, noise - noise.mean()))
    found = natural_step(model.factors, natural, sums, 1.0, shaken)
    assert found.n_groups == 50 and 0 < found.n_shrunk <= 50
    for side in (model.rows, model.columns):
        # Those of columns follow from the rows as they are after their step.
        quiet = side.target(
            natural | {"rows": found.natural["rows"]}
            if side is model.columns
            else natural,
            sums,
        )
        least = np.linalg.eigvals(
            np.linalg.solve(quiet["precision"], found.natural[side.name]["precision"])
        ).real.min(axis=1)
        assert np.all(least >= 0.5 - 1e-9)
        assert np.any(least < 0.5 + 1e-6)


def test_the_bound_of_noisy_steps_is_that_of_all_entries_without_noise():
    X = gappy()
    model = MatrixFactorizationModel(X.shape, 2)
    engine, state, history = ascent(model, X, 3, effective_batch_size=5)
    assert history[-1].n_groups
    again = MatrixFactorizationModel(X.shape, 2)
    evidence = again.expect(state.natural, ObservedEntries(Entries.of(X))).evidence
    assert_allclose(history[-1].elbo, again.elbo(state.natural, evidence), rtol=1e-12)


def test_noise_by_embedding_is_centred_and_as_large_as_its_entries_say():
    entries = ObservedEntries(Entries.of(gappy(share=0.8)))
    rng = np.random.default_rng(0)
    n_draws = 1500
    draws = [entries.noise(3.0, rng) for _ in range(n_draws)]
    for name in ("rows", "columns"):
        index = getattr(entries.entries, name)
        noise = np.stack([draw[name] for draw in draws])
        for one in np.unique(index):
            own = noise[:, index == one]
            n = own.shape[1]
            assert_allclose(own.sum(axis=1), 0.0, atol=1e-12)
            # Centred normal weights: (n - 1) (n / 3 - 1) is what squares sum to.
            squares = (own**2).sum(axis=1)
            error = squares.std() / np.sqrt(n_draws)
            expected = (n - 1) * max(n / 3.0 - 1.0, 0.0)
            assert abs(squares.mean() - expected) <= 5.0 * error
    assert entries.noise(9.0, rng) is None


def test_noise_by_embedding_leaves_rows_with_few_entries_alone():
    X = gappy(share=0.8)
    count = np.sum(~np.isnan(X), axis=1)
    size = int(np.median(count))
    natural = {}
    for name, batch in (("quiet", None), ("noisy", PerEmbedding(size))):
        model = MatrixFactorizationModel(X.shape, 2)
        _, state, _ = ascent(model, X, effective_batch_size=batch)
        natural[name] = state.natural["rows"]["first"]
    same = np.all(natural["quiet"] == natural["noisy"], axis=1)
    assert 0 < same.sum() < len(same)
    assert_allclose(natural["quiet"][count <= size], natural["noisy"][count <= size])
    assert not same[count > size].any()


def test_noise_by_embedding_is_refused_where_rows_are_no_entries():
    X = np.random.default_rng(0).standard_normal((30, 2))
    mixture = SVIGaussianMixture(2, effective_batch_size=PerEmbedding(5))
    with pytest.raises(ValueError, match="SVIMatrixFactorization"):
        mixture.fit(X)
