"""Gaussians at every scale by expectation propagation at two values of it."""

import numpy as np
import pytest
from scipy.special import expit

from skboost.families import FullGaussian
from skboost.proposals import _propagated
from skboost.proposals._propagated import _in_units, _over_scales, signed_rows
from skboost.targets import (
    CommonScale,
    GLMTarget,
    HalfTPrior,
    Logistic,
    NormalPrior,
    PrincipalScale,
    Table,
)


def target_of(n, dim, *, principal=True, spread=5.0, weighted=False, intercept=True):
    """Rows of two classes with columns of unequal size, few for each parameter."""
    rng = np.random.default_rng(n)
    turned = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    X = rng.normal(size=(n, dim)) * np.linspace(0.3, 2.0, dim) @ turned
    eta = X @ rng.normal(size=dim) * np.sqrt(spread / dim) / 1.3 - 0.5
    y = (rng.uniform(size=n) < expit(eta)).astype(float)
    weight = rng.choice([0.0, 0.5, 2.0], n) if weighted else 1.0
    offset = rng.normal(size=n) if weighted else None
    factor, shared = HalfTPrior(scale=1.5), np.arange(dim + intercept) < dim
    prior = (
        PrincipalScale(shared, np.cov(X.T), factor)
        if principal
        else CommonScale(NormalPrior(), shared, dim, factor)
    )
    scale = np.append(np.linspace(0.5, 1.5, dim), 10.0)[: dim + intercept]
    return GLMTarget(
        Table(X, y, weight, offset), Logistic(), prior=prior, scale=scale,
        fit_intercept=intercept, centre=X.mean(axis=0) if intercept else None,
    )  # fmt: skip


def by_anchors(target):
    rows = signed_rows(target, FullGaussian())
    way = lambda root: _in_units(rows, target, root)  # noqa: E731
    return rows, _propagated.anchored_nodes(rows, target, way)


def moments(nodes):
    """Mean and standard deviations over all scales that have a Gaussian."""
    weights = nodes.weights / nodes.weights.sum()
    means, covariances = nodes.gaussians.means, nodes.gaussians.covariances
    mean = weights @ means
    second = np.einsum("k,kii->i", weights, covariances) + weights @ means**2
    return mean, np.sqrt(second - mean**2)


CASES = {
    "kinds of priors": {},
    "one kind": {"principal": False},
    "weights and offsets": {"weighted": True, "principal": False},
    "no intercept": {"intercept": False, "principal": False},
}


@pytest.mark.parametrize("case", CASES)
def test_two_values_of_the_scale_tell_what_all_of_them_do(case):
    target = target_of(500, 40, **CASES[case])
    rows, found = by_anchors(target)
    for kind, (part, root) in enumerate(
        zip(found, target.scale_prior.roots, strict=True)
    ):
        exact = _over_scales(rows, target, root, None)
        # Kinds of priors are equally probable.
        evidence = exact.log_evidence - np.log(len(found))
        assert part.log_evidence == pytest.approx(evidence, abs=0.05), kind
        (mean, sd), (other, exact_sd) = map(moments, (part, exact))
        assert np.abs((mean - other) / exact_sd).max() < 0.03
        np.testing.assert_allclose(sd, exact_sd, rtol=0.02)
        # At each value that counts it is the Gaussian there.
        own, _, variances_at = _in_units(rows, target, root)
        log_s = part.log_s[part.weights > 0.05]
        there = own.fitted(variances_at(log_s))[1].log_evidence
        here = part.gaussians.log_evidence[part.weights > 0.05]
        np.testing.assert_allclose(np.diff(here), np.diff(there), atol=0.05)


@pytest.mark.parametrize("case", ["few rows", "separable"])
def test_it_stands_back_where_sites_change_with_the_scale(case):
    target = target_of(200 if case == "few rows" else 400, 20)
    if case == "separable":
        X = target.rows.X
        y = (X @ np.ones(20) > 0.0).astype(float)
        target = GLMTarget(
            Table(X, y), Logistic(), prior=target.prior, scale=target.scale
        )
    rows, found = by_anchors(target)
    assert found is None
    parts = _propagated._propagated_nodes(target, FullGaussian())
    assert len(parts) == len(target.scale_prior.roots)
    assert all(len(part.log_s) > 3 for part in parts)
