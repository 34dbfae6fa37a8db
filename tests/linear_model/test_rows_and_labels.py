"""Rows in canonical form, labels as codes, names that differ."""

import numpy as np
import pytest
from scipy import sparse

from skboost._rows import canonical_rows

from ..kinds import Logistic

CONTAINERS = [np.asarray, sparse.csr_matrix, sparse.csr_array]


@pytest.fixture
def rows():
    """Rows with repetitions and zeros, labels and weights that are exact sums."""
    rng = np.random.default_rng(0)
    X = rng.integers(-1, 2, (40, 3)).astype(float)
    return X, rng.integers(0, 2, 40), rng.integers(0, 3, 40) / 4


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


def as_dict(X, y, weight):
    """Total weight of every distinct row and label."""
    total = {}
    for row, label, w in zip(dense(X), y, weight, strict=True):
        key = (*row, label)
        total[key] = total.get(key, 0.0) + w
    return {key: w for key, w in total.items() if w > 0}


@pytest.mark.parametrize("container", CONTAINERS)
def test_equal_rows_are_merged_whatever_their_order_and_container(rows, container):
    X, y, weight = rows
    found = canonical_rows(X, y, weight)
    assert as_dict(*found) == as_dict(X, y, weight)
    assert len(found[1]) == len(as_dict(X, y, weight))
    assert (found[2] > 0).all()
    order = np.random.default_rng(1).permutation(len(y))
    other = canonical_rows(container(X[order]), y[order], weight[order])
    for a, b in zip(found, other, strict=True):
        assert np.array_equal(dense(a), dense(b))


def test_zeros_have_no_sign_and_need_no_store():
    X = np.array([[0.0, 1.0], [-0.0, 1.0]])
    found, _, weight = canonical_rows(X, np.zeros(2), np.ones(2))
    assert len(found) == 1
    assert weight.tolist() == [2.0]
    stored = sparse.csr_matrix(([0.0, 1.0, 1.0], ([0, 0, 1], [0, 1, 1])), (2, 2))
    found, _, weight = canonical_rows(stored, np.zeros(2), np.ones(2))
    assert found.shape == (1, 2)
    assert stored.nnz == 3


def test_large_data_are_left_as_they_are(rows, monkeypatch):
    monkeypatch.setattr("skboost._rows.MAX_BYTES", 0)
    X, y, weight = rows
    found = canonical_rows(X, y, weight)
    used = weight > 0
    assert np.array_equal(found[0], X[used])
    all_used = canonical_rows(X, y, np.ones(40))
    assert all_used[0] is X


def logistic(labels, n_features=2):
    """A short fit of two rows for each label."""
    X = np.random.default_rng(0).normal(size=(2 * len(labels), n_features))
    model = Logistic(max_iter=1, prior_scale=1.0, orbit=None, random_state=0)
    return model.fit(X, np.repeat(np.asarray(labels), 2))


@pytest.mark.parametrize(
    "labels", [[3, 1, 3], ["b", "a"], [True, False], np.array(["b", "a"], object)]
)
def test_classes_are_sorted(labels):
    assert logistic(labels).classes_.tolist() == sorted(set(labels))


def test_strange_labels_are_shown():
    model, X = logistic(["a", "b"]), np.zeros((2, 2))
    for ask in (model.partial_fit, model.log_predictive_density):
        with pytest.raises(ValueError, match=r"\['a', 'b'\]; got \['z'\]"):
            ask(X, ["a", "z"])


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a", "a"], ["a", "a (2)", "a (3)"]),
        (["a", "a (2)", "a"], ["a", "a (2)", "a (3)"]),
        ([1, "1"], ["1", "1 (2)"]),
        (["intercept"], ["intercept"]),
    ],
)
def test_names_become_distinct(names, expected):
    model = logistic([0, 1], len(names)).set_feature_names(names)
    *found, intercept = model.posterior_.names
    assert found == expected
    assert intercept == "intercept" + " (2)" * ("intercept" in names)
