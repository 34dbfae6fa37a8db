"""Step sizes and corrective variants act in every fit whose scale is learned."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.preprocessing import scale

from skboost.callbacks import Checkpoint

from ..kinds import Linear, Logistic, Poisson, over

STRATEGIES = [
    ("predefined", "none"),
    ("line-search", "none"),
    ("adaptive", "none"),
    ("line-search", "away"),
    ("line-search", "pairwise"),
    ("line-search", "fully-corrective"),
]


def rows_of(load, n):
    X, y = load(return_X_y=True)
    some = np.random.default_rng(0).permutation(len(y))[:n]
    return scale(X[:, :8])[some], y[some]


def counts():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    return X, rng.poisson(np.exp(0.5 + X @ [0.5, -0.3, 0.0, 0.1]))


CASES = {
    "breast cancer": (Logistic, lambda: rows_of(load_breast_cancer, 60)),
    "diabetes": (Linear, lambda: rows_of(load_diabetes, 60)),
    "counts": (Poisson, counts),
}
# Orbits are no part of boosting, and take most of the seconds.
PLAIN = {"orbit": None, "random_state": 0}


@cache
def fitted(name, step_size, corrective, **more):
    kind, rows = CASES[name]
    X, y = rows()
    settings = PLAIN | {"step_size": step_size, "corrective": corrective} | more
    return kind(**settings).fit(X, y), X


def predictions(model, X):
    proba = getattr(model, "predict_proba", None)
    return proba(X) if proba else model.predict(X)


@pytest.mark.parametrize("name", CASES)
def test_predictions_depend_on_the_strategy(name):
    found = {}
    for strategy in STRATEGIES:
        model, X = fitted(name, *strategy)
        assert model.n_iter_ >= 2
        found[strategy] = predictions(model, X)
    distinct = []
    for one in found.values():
        if not any(np.allclose(one, other, rtol=0, atol=1e-9) for other in distinct):
            distinct.append(one)
    assert len(distinct) >= 3


@pytest.mark.parametrize("name", ["breast cancer", "diabetes", "counts"])
class TestPublishedRecursions:
    """The weights that the steps of `history_` lead to, nodes by their masses."""

    @staticmethod
    def replayed(name, model, rule):
        """Weights of all nodes after every iteration, by the nodes' masses alone."""
        whole = fitted(name, "line-search", "fully-corrective")[0].posterior_
        masses = whole.weights
        weights = np.zeros(len(masses))
        weights[masses.argmax()] = 1.0
        every = [weights]
        for t in range(1, model.n_iter_):
            log = np.log(np.where(weights > 0, weights, 1.0))
            slope = np.where(weights > 0, 1.0 + log, np.log(0.01)) - np.log(masses)
            node, seen = slope.argmin(), np.any(every, axis=0)
            lacking = np.sum(weights * (log - np.log(masses)))
            gap = weights @ slope - slope[node]
            if min(lacking, gap) <= 0.01 and not seen.all():
                node = np.where(seen, -1.0, masses).argmax()
            gamma = rule(t, model.history_[t])
            weights = (1.0 - gamma) * weights
            weights[node] += gamma
            every.append(weights)
        return every

    def compared(self, name, model, rule):
        every = self.replayed(name, model, rule)
        elbos = [h["elbo"] for h in model.history_]
        # Steps that may lose keep the best mixture that they met.
        kept = every[int(np.argmax(elbos))]
        kept = kept[kept > 0]
        assert len(kept) > 1
        assert_allclose(np.sort(model.posterior_.weights), np.sort(kept), atol=1e-8)

    def test_predefined(self, name):
        model, _ = fitted(name, "predefined", "none")
        gammas = [h["gamma"] for h in model.history_]
        assert_allclose(gammas[1:], [2.0 / (t + 2.0) for t in range(1, len(gammas))])
        self.compared(name, model, lambda t, _: 2.0 / (t + 2.0))

    def test_adaptive(self, name):
        model, _ = fitted(name, "adaptive", "none")
        assert {h["branch"] for h in model.history_[1:]} & {"adaptive"}
        self.compared(name, model, lambda _, told: told["gamma"])

    def test_line_search(self, name):
        """gamma = Z / (Z + exp ELBO), and all gains are those of the masses."""
        model, _ = fitted(name, "line-search", "none")
        masses = np.sort(model.posterior_.weights)[::-1]
        total = np.cumsum(masses)
        gammas = [h["gamma"] for h in model.history_]
        assert_allclose(gammas, masses / total, atol=1e-8)
        gains = [h["gain"] for h in model.history_[1:]]
        assert_allclose(gains, np.log(total[1:] / total[:-1]), atol=1e-8)
        elbos = [h["elbo"] for h in model.history_]
        assert_allclose(np.diff(elbos), gains, atol=1e-8)


class TestLimits:
    @pytest.fixture(scope="class")
    def whole(self):
        return fitted("breast cancer", "line-search", "fully-corrective")[0]

    def test_one_iteration_is_one_gaussian_at_the_heaviest_node(self, whole):
        model, _ = fitted("breast cancer", "line-search", "none", max_iter=1)
        heaviest = int(whole.posterior_.weights.argmax())
        assert model.n_iter_ == model.posterior_.n_components == 1
        mean = whole.posterior_.mixture.component_means()[heaviest]
        assert_allclose(model.posterior_.mean(), mean)
        # It lacks all other nodes, beside what all of them leave.
        one, all_nodes = (m.history_[-1]["remaining_kl"] for m in (model, whole))
        lacking = -np.log(whole.posterior_.weights[heaviest])
        assert_allclose(one - all_nodes, lacking, rtol=1e-3)

    def test_nodes_so_far_are_the_mixture(self, whole):
        strategy = "line-search", "fully-corrective"
        model, X = fitted("breast cancer", *strategy, max_iter=3)
        assert model.posterior_.n_components == model.n_iter_ == 3
        kept = np.sort(whole.posterior_.weights)[-3:]
        assert_allclose(np.sort(model.posterior_.weights), kept / kept.sum())
        assert f"{whole.n_iter_} components to begin with" in model.message_
        assert "the mixture holds 3 of them" in model.message_
        assert np.isfinite(model.elbo_) and model.elbo_ < 0.0
        stages = [*whole.staged_predict_proba(X)]
        assert len(stages) == whole.n_iter_
        assert_allclose(stages[2], model.predict_proba(X))

    @pytest.mark.parametrize(
        ("step_size", "corrective"),
        [
            pytest.param("predefined", "none", marks=pytest.mark.slow),
            ("adaptive", "pairwise"),
        ],
    )
    def test_a_run_that_goes_on_is_one_long_run(self, step_size, corrective):
        strategy = "breast cancer", step_size, corrective
        once, X = fitted(*strategy, max_iter=9)
        twice, _ = fitted(*strategy, max_iter=4, warm_start=True)
        _, y = CASES["breast cancer"][1]()
        twice.set_params(max_iter=9).fit(X, y)
        assert once.n_iter_ == twice.n_iter_ == 9
        assert np.array_equal(once.posterior_.weights, twice.posterior_.weights)
        for name in ("gamma", "gain", "gap", "elbo", "remaining_kl"):
            long, resumed = ([h[name] for h in m.history_] for m in (once, twice))
            assert np.array_equal(long, resumed, equal_nan=True)

    def test_a_checkpoint_inside_nodes_is_gone_on_with(self, tmp_path):
        strategy = {"step_size": "adaptive", "corrective": "pairwise"}
        kind, rows = CASES["breast cancer"]
        once, twice = kind(**PLAIN, **strategy), kind(**PLAIN, **strategy)
        twice.set_callbacks(Checkpoint(tmp_path / "nodes"))
        twice.set_params(max_iter=4).fit(*rows())
        assert twice.posterior_.n_components <= 4
        twice.set_params(max_iter=8).fit(*rows())
        once.set_params(max_iter=8).fit(*rows())
        assert twice.n_iter_ == 8
        assert np.array_equal(once.posterior_.weights, twice.posterior_.weights)
        assert once.elbo_ == twice.elbo_

    def test_a_number_of_tol_goes_on_after_the_nodes(self, whole):
        model, _ = fitted(
            "counts", "line-search", "fully-corrective", tol=0.01, max_iter="auto"
        )
        nodes = fitted("counts", "line-search", "fully-corrective")[0].n_iter_
        assert nodes < model.n_iter_ <= nodes + 9
        iterations = [h["iteration"] for h in model.history_]
        assert iterations == list(range(1, model.n_iter_ + 1))

    @over("corrective", ["none", "fully-corrective"], slow=["none"])
    def test_a_tolerance_of_zero_takes_every_node(self, whole, corrective):
        """Slopes of nodes at their best weights differ by rounding alone."""
        n = whole.n_iter_
        strategy = "breast cancer", "line-search", corrective
        model, _ = fitted(*strategy, tol=0.0, max_iter=n)
        assert model.n_iter_ == model.posterior_.n_components == n
        assert_allclose(model.posterior_.weights, whole.posterior_.weights, atol=1e-9)

    def test_a_strategy_that_cannot_act_is_no_error(self, whole):
        model, _ = fitted("breast cancer", "line-search", "away", max_iter=1)
        assert model.n_iter_ == 1
        assert clone(whole).get_params()["max_iter"] == "auto"
