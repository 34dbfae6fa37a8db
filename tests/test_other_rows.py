"""With ``warm_start=True`` other rows are gone on with or refused, never ignored."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtri

from .cases import FLAT, OTHERS, SVI, each

pytestmark = pytest.mark.filterwarnings("ignore:.*goes on with other")
CASES = FLAT | OTHERS | SVI
# One of each way to go on; what test_contract.py asks of others is refused there.
QUICK = {"two classes", "mixture", "factorisation", "svi, factors"}
SLOW = {*CASES} - QUICK
# A factorisation knows its rows by their places, so that their order is an answer.
ROWS = {n: c for n, c in CASES.items() if not hasattr(c.estimator, "predict_entries")}


def others(case):
    """Arguments of ``fit`` with other values, and with fewer rows."""
    rng = np.random.default_rng(7)
    X = case.X.copy()
    if case.y is None:
        counts = X.dtype.kind == "i"
        X = rng.poisson(3.0, X.shape) if counts else X + ndtri(rng.random(X.shape))
    else:
        X[:, 0] = rng.permutation(X[:, 0])
    yield case.data() | {"X": X}
    yield case.data(slice(len(case.X) * 2 // 3))
    yield case.data() | {"X": case.X[:, ::-1].copy()}


@each(CASES, "warm_start", slow=SLOW)
def test_other_rows_are_gone_on_with_or_refused(name):
    case = CASES[name]
    for n, data in enumerate(others(case)):
        # Long enough that the first rows leave nothing to gain.
        limit = {"max_iter": 40, "tol": 1e-6} if name in SVI else {}
        model = case.fit(warm_start=True, **limit)
        before, bound = case.answer(model), model.elbo_
        try:
            model.fit(**data)
        except ValueError as error:
            assert "warm_start=True goes on with" in str(error), n
            assert_allclose(case.answer(model), before)
            continue
        assert model.elbo_ != bound, n
        fresh = case.new(**limit).fit(**data)
        X = data["X"]
        # It fits the new rows about as well as a fit of these alone.
        lost = fresh.elbo_ - model.elbo_
        assert lost < 0.2 * abs(fresh.elbo_), (n, lost)
        assert np.shape(case.answer(model, X))[0] == len(X)


@each(ROWS, "warm_start", slow=SLOW)
def test_the_same_rows_in_another_order_are_gone_on_with(name):
    case = ROWS[name]
    order = np.random.default_rng(3).permutation(len(case.X))
    long = case.new(max_iter=2, warm_start=True).fit(**case.data())
    long.set_params(max_iter=3).fit(**case.data(order))
    assert_allclose(long.elbo_, case.fit(max_iter=3).elbo_, rtol=1e-6)
    assert long.n_iter_ == 3


def test_a_converged_run_moves_to_other_rows():
    case = SVI["svi, mixture"]
    far = case.X + 40.0
    model = case.new(warm_start=True, max_iter=200, tol=1e-6).fit(case.X)
    assert model.converged_
    model.fit(far)
    assert model.converged_ and len(model.elbo_path_) == model.n_iter_ < 200
    fresh = case.new(max_iter=200, tol=1e-6).fit(far)
    lost = fresh.score_samples(far).mean() - model.score_samples(far).mean()
    assert lost < 2.0
    assert np.abs(model.means_[model.weights_.argmax()] - far.mean(axis=0)).max() < 1.0
    again = model.n_iter_
    assert model.fit(far).n_iter_ == again
