"""Conjugate models under process backends: the same fits, data sent once."""

import joblib
import numpy as np
import pytest
from joblib import parallel_config

from skboost import (
    BoostedGaussianMixture,
    BoostedMatrixFactorization,
    SVILatentDirichletAllocation,
)
from skboost.conjugate._documents import Documents
from skboost.conjugate._topics import TopicModel


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(30, 0.1), 4)
    shares = rng.dirichlet(np.full(4, 0.3), 2_500)
    return rng.poisson(40.0 * shares @ topics)


@pytest.fixture
def written(monkeypatch):
    """Values that were written to files for workers."""
    found, dump = [], joblib.dump

    def counted(value, path):
        found.append(type(value).__name__)
        return dump(value, path)

    monkeypatch.setattr("skboost._parallel.joblib.dump", counted)
    return found


@pytest.mark.slow
def test_documents_are_written_once_and_topics_are_the_same(counts, written):
    settings = {"n_components": 4, "random_state": 0, "max_iter": 6}
    one = SVILatentDirichletAllocation(**settings).fit(counts)
    with parallel_config("loky", n_jobs=2):
        two = SVILatentDirichletAllocation(**settings).fit(counts)
    assert np.array_equal(one.components_, two.components_)
    assert one.elbo_ == two.elbo_
    assert written == ["Documents"]


@pytest.mark.slow
def test_documents_that_go_on_from_before_do_so_in_other_processes(counts):
    model = TopicModel.make(4, counts.shape[1], 0.3, 0.1)
    rng = np.random.default_rng(1)
    natural = {"topics": {"lambda": rng.gamma(2.0, 1.0, counts.shape[::-1][:1] + (4,))}}
    rows, table = Documents.of(counts), model._table(natural)
    start = rng.gamma(2.0, 5.0, (len(rows), 4))

    def bound():
        found = model._improved(model._proportions(table, rows), table, rows, start)
        return np.concatenate([local.evidence for _, local in found])

    before = np.concatenate(
        [local.evidence for _, local in model._proportions(table, rows)]
    )
    here = bound()
    with parallel_config("loky", n_jobs=2):
        model.n_jobs = 2
        there = bound()
    assert np.array_equal(here, there)
    assert (here > before).any()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mixture", "factorisation"])
def test_boosted_conjugate_models_are_the_same_in_other_processes(kind, written):
    rng = np.random.default_rng(0)
    if kind == "mixture":
        X = rng.standard_normal((120, 2)) + 3.0 * rng.integers(0, 2, (120, 1))
        model = BoostedGaussianMixture(2, max_iter=2, random_state=0)
    else:
        X = rng.standard_normal((12, 2)) @ rng.standard_normal((2, 8))
        model = BoostedMatrixFactorization(2, max_iter=2, random_state=0)
    one = model.fit(X).elbo_
    with parallel_config("loky", n_jobs=2):
        two = model.fit(X).elbo_
    assert one == two
    assert len(written) == 1
