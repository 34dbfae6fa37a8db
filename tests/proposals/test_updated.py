"""What an update begins with where the posterior so far is a mixture."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_blobs

from skboost import BoostedBayesianLogisticRegression
from skboost.approximation import Mixture
from skboost.boosting import Settings
from skboost.families import Component, DiagonalGaussian, FullGaussian
from skboost.proposals import UpdateProposer
from skboost.strategies import JointGain
from skboost.targets import FlatPrior, GLMTarget, Logistic, Table, updated_target

FULL = FullGaussian()


def one_coefficient(weights, n=6):
    """A wide and a far prior component of one coefficient, updated by n events."""
    X, y = np.linspace(0.5, 1.5, n)[:, None], np.ones(n)
    rows, kept = Table(X, y, 1.0, None), {"prior": FlatPrior(), "scale": np.ones(1)}
    likelihood = GLMTarget(rows, Logistic(), fit_intercept=False, **kept)
    parts = [([-4.0], [[0.25]]), ([2.0], [[1.0]])]
    components = tuple(
        Component(FULL, FULL.from_moments(*map(np.array, p))) for p in parts
    )
    return updated_target(likelihood, Mixture(components, np.array(weights)))


def first(target, **settings):
    proposer = UpdateProposer(FULL, JointGain(), np.zeros((1, target.dim)))
    return proposer.initial(target, Settings(exact=True, **settings))[0]


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.999, 0.001)])
def test_components_of_the_prior_are_weighted_by_their_evidence(weights):
    target, grid = one_coefficient(weights), np.linspace(-12.0, 12.0, 4001)[:, None]
    found = first(target)
    p = np.exp(target.log_density(grid))
    p /= p.sum()
    assert found.mean()[0] == pytest.approx(p @ grid[:, 0], abs=0.05)
    far = grid[:, 0] < -1.5
    mass = found.weights @ (found.component_means()[:, 0] < -1.5)
    assert mass == pytest.approx(p @ far, abs=0.02)


def test_no_more_components_than_are_allowed_and_none_of_next_to_no_mass():
    assert first(one_coefficient((0.5, 0.5)), max_components=1).n_components == 1
    assert first(one_coefficient((0.5, 0.5), n=60)).n_components == 1


def test_mixtures_of_full_gaussians_alone_have_such_a_beginning():
    target = one_coefficient((0.5, 0.5))
    assert UpdateProposer.serves(target, FULL) and target.modes_known
    assert not UpdateProposer.serves(target, DiagonalGaussian())
    single = updated_target(target.likelihood, target.prior.keep([True, False]))
    assert not UpdateProposer.serves(single, FULL)


@pytest.mark.parametrize("k", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_updates_of_classes_far_apart_predict_them(k):
    X, y = make_blobs(60, centers=6.0 * np.eye(3)[:k], random_state=0)
    labels = np.arange(k)
    model = BoostedBayesianLogisticRegression(random_state=0)
    for rows in np.split(np.arange(60), 3):
        model.partial_fit(X[rows], y[rows], classes=labels)
    assert model.score(X, y) == 1.0
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
