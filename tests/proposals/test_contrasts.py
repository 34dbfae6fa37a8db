"""Gaussians of several classes: against quadrature, symmetries, in bad hands."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import log_softmax
from scipy.stats import qmc

from skboost import BoostedBayesianLogisticRegression
from skboost.proposals._contrasts import ClassRows
from skboost.proposals._scale_nodes import scale_nodes
from skboost.proposals._signed_rows import SignedRows
from skboost.targets import softmax_nodes


def rows_of(n=14, p=2, n_classes=3, seed=0, n_nodes=64):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    noise = rng.gumbel(size=(n, n_classes))
    y = np.argmax(X @ rng.standard_normal((p, n_classes)) + noise, axis=1)
    return ClassRows(X, y, np.ones(n), softmax_nodes(n_classes - 1, n_nodes))


def variances_of(rows, *scales):
    dim = rows.X.shape[1] * rows.n_classes
    return np.repeat(np.square(scales)[:, None], dim, axis=1).astype(float)


def fine(rows, *scales):
    return rows.given_sites(*rows.fitted(variances_of(rows, *scales), tol=1e-5))


def quadrature(rows, scale):
    """Log evidence, means and standard deviations by nodes of the prior."""
    dim = rows.X.shape[1] * rows.n_classes
    points = qmc.MultivariateNormalQMC(np.zeros(dim), seed=0).random(1 << 16)
    theta = scale * points
    eta = theta.reshape(-1, rows.n_classes, rows.X.shape[1]) @ rows.X.T
    logs = log_softmax(eta, axis=1)[:, rows.y, np.arange(len(rows.y))]
    log_mass = logs @ rows.weights
    mass = np.exp(log_mass - log_mass.max())
    evidence = np.log(mass.mean()) + log_mass.max()
    mass /= mass.sum()
    mean = mass @ theta
    return evidence, mean, np.sqrt(mass @ (theta - mean) ** 2)


@pytest.mark.parametrize(("scale", "apart"), [(0.5, 0.02), (3.0, 0.05)])
def test_three_classes_are_near_quadrature(scale, apart):
    rows = rows_of()
    evidence, mean, std = quadrature(rows, scale)
    found = fine(rows, scale)
    # Sites of a row are independent where evidence is taken: a tenth of a nat at most.
    assert found.log_evidence[0] == pytest.approx(evidence, abs=0.1)
    assert found.means[0] == pytest.approx(mean, abs=0.1 * std.min())
    # Without coupling they are three to five per cent too narrow.
    assert np.sqrt(np.diag(found.covariances[0])) == pytest.approx(std, rel=apart)


def test_weights_are_repetition():
    rows, counts = rows_of(), np.arange(14) % 3 + 1
    weighted = replace(rows, weights=counts.astype(float))
    X, y = (np.repeat(part, counts, axis=0) for part in (rows.X, rows.y))
    often = replace(rows, X=X, y=y, weights=np.ones(counts.sum()))
    for one, two in zip(fine(weighted, 0.5, 4), fine(often, 0.5, 4), strict=True):
        assert one == pytest.approx(two, rel=1e-6, abs=1e-7)


def test_both_forms_have_the_same_answer():
    wide = rows_of(n=10, p=30)
    # Rows that say nothing make the matrix a tall one.
    tall = replace(
        wide,
        X=np.vstack([wide.X, np.zeros((400, 30))]),
        y=np.append(wide.y, np.zeros(400, dtype=int)),
        weights=np.append(wide.weights, np.full(400, 1e-12)),
    )
    forms = [type(rows.predictors(variances_of(rows, 1.0))) for rows in (wide, tall)]
    assert forms[0] is not forms[1]
    for one, two in zip(fine(wide, 0.7), fine(tall, 0.7), strict=True):
        assert one == pytest.approx(two, rel=1e-6, abs=1e-6)


def test_classes_may_have_any_order():
    rows, order = rows_of(n_nodes=1024), np.array([2, 0, 1])
    other = replace(rows, y=order[rows.y])
    one, two = fine(rows, 1.0), fine(other, 1.0)
    assert two.log_evidence == pytest.approx(one.log_evidence, abs=2e-3)
    assert two.means.reshape(3, 2)[order] == pytest.approx(one.means.reshape(3, 2))
    std = [np.diag(part.covariances[0]).reshape(3, 2) for part in (one, two)]
    assert std[1][order] == pytest.approx(std[0])


def test_two_classes_of_two_columns_are_those_of_contrasts():
    rows = rows_of(n=30, n_classes=2)
    found = rows.given_sites(*rows.fitted(variances_of(rows, 1.0), tol=1e-5))
    signed = SignedRows(
        np.where(rows.y == 1, 1.0, -1.0)[:, None] * rows.X, rows.weights
    )
    # The difference of two classes has twice the variance.
    known = signed.given_sites(*signed.fitted(np.full((1, 2), 2.0), tol=1e-4))
    turn = np.hstack([-np.eye(2), np.eye(2)])
    assert found.means @ turn.T == pytest.approx(known.means, abs=5e-3)
    covariance = turn @ found.covariances[0] @ turn.T
    assert covariance == pytest.approx(known.covariances[0], rel=0.02, abs=1e-3)
    assert found.log_evidence == pytest.approx(known.log_evidence, abs=5e-3)


@pytest.mark.parametrize("factor", [1e8, 1e-8])
@pytest.mark.parametrize("weight", [1.0, 1e11])
def test_bad_rows_have_gaussians_and_an_evidence_of_at_most_one(factor, weight):
    rows = rows_of(n=20)
    X = np.vstack([rows.X, np.eye(2)]) * [factor, 1.0]
    y = np.append(np.argmax(rows.X @ [[1, 0, -1], [0, 3, 0]], axis=1), [0, 1])
    rows = replace(rows, X=X, y=y, weights=np.append(np.ones(20), [weight, 1.0]))
    found = rows.gaussians(variances_of(rows, 0.1, 1.0, 1e4))
    assert (found.log_evidence <= 0.0).all()
    assert np.isfinite(found.log_evidence).any()
    assert np.isfinite(found.means).all()
    assert (np.diagonal(found.covariances, axis1=1, axis2=2) > 0.0).all()


def test_priors_too_wide_are_flagged():
    rows = rows_of()
    _, sites = rows.fitted(variances_of(rows, 1.0, 1e5))
    assert sites.converged.tolist() == [True, False]
    assert sites.bounded.tolist() == [False, True]


def test_the_default_learns_the_scale_of_three_classes():
    rows = rows_of(n=30)
    model = BoostedBayesianLogisticRegression(random_state=0).fit(rows.X, rows.y)
    low, high = model.prior_scale_interval(0.9)
    assert 0.0 < low < model.prior_scale_ < high
    assert model.predict_proba(rows.X).sum(axis=1) == pytest.approx(1.0)
    assert "weighted by its evidence" in model.message_


def test_separable_rows_end_a_fit_without_a_warning():
    X = np.repeat(np.eye(3), 4, axis=0) * [1.0, 1e8, 1.0]
    y = np.repeat([0, 1, 2], 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        model = BoostedBayesianLogisticRegression(random_state=0).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    assert np.isfinite(model.elbo_)


def test_values_of_a_scale_serve_another_prior_where_they_cover_it():
    rows, unit = rows_of(30), np.ones(6)

    def over(width, near=None):
        def variances_at(log_s):
            return np.exp(2.0 * log_s)[:, None] * (width * unit) ** 2

        def log_prior(log_s):
            return -0.5 * (log_s / 0.7) ** 2

        return scale_nodes(rows, variances_at, log_prior, 0.0, near)

    first = over(1.0)
    # So narrow a prior moves the evidence towards larger scales.
    for width, same in ((0.9, True), (0.05, False)):
        anew, found = over(width), over(width, first)
        assert np.array_equal(found.near[0], first.near[0]) is same
        assert found.log_evidence == pytest.approx(anew.log_evidence, abs=0.02)
        mean = found.weights @ found.log_s
        assert mean == pytest.approx(anew.weights @ anew.log_s, abs=0.02)
