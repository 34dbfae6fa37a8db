"""When a fit may say that it converged, by plain numbers."""

from types import SimpleNamespace

import numpy as np
import pytest

from skboost.approximation import LogEvidence, RemainingKL
from skboost.fitting import _messages
from skboost.fitting._judgement import DensityError, Judgement


def judgement(value=0.0, outside=0.0, zero=None):
    """Of a mixture of which so many nats remain, so much of it lies where the density
    is zero, and so much of its heavy-tailed copies.
    """
    evidence = None if zero is None else LogEvidence(0.0, 0.1, 0.1, zero=zero)
    remaining = RemainingKL(value, 0.01, 0.1, value, outside)
    fresh = SimpleNamespace(elbo=lambda: SimpleNamespace(value=0.0), outside=outside)
    return Judgement(fresh, remaining, evidence=evidence)


def problem(tol=0.01, allowed=None):
    """The settings alone."""
    settings = SimpleNamespace(tol=tol, allowed_kl=allowed)
    return SimpleNamespace(engine=SimpleNamespace(settings=settings))


@pytest.mark.parametrize(
    ("zero", "outside", "meets"),
    [
        (None, 0.0, False),
        (0.0, 0.0, False),
        (0.04, 0.0, False),
        (0.06, 0.0, True),
        (0.9, 0.0, True),
        (None, 1e-4, True),
        (0.0, 1e-4, True),
    ],
)
def test_an_edge_is_met_where_the_density_is_zero_close_by(zero, outside, meets):
    assert judgement(zero=zero, outside=outside).meets_edge is meets


@pytest.mark.parametrize(
    ("tol", "allowed", "zero", "outside", "most"),
    [
        (0.01, None, None, 0.0, 0.1),
        # Half a nat at most, or what is allowed.
        (0.1, None, None, 0.0, 0.5),
        (0.1, 2.0, None, 0.0, 2.0),
        # At an edge no more than is allowed, less what lies beyond it.
        (0.01, None, 0.5, 0.0, 0.01),
        (0.01, None, None, 0.2, 0.01 + np.log(0.8)),
        (0.01, None, None, 1.0, -np.inf),
    ],
)
def test_how_much_may_remain_of_what_converged(tol, allowed, zero, outside, most):
    found = _messages.most_kl(problem(tol, allowed), judgement(0.0, outside, zero))
    assert found == pytest.approx(most)


@pytest.mark.parametrize(
    ("tol", "allowed", "value", "says"),
    [
        (0.01, None, 0.09, True),
        (0.01, None, 0.11, False),
        (0.1, None, 0.49, True),
        (0.1, None, 0.51, False),
        # Never above half a nat, whatever is allowed.
        (0.1, 2.0, 0.49, True),
        (0.1, 2.0, 1.0, False),
    ],
)
def test_converged_is_said_where_little_remains(tol, allowed, value, says, monkeypatch):
    monkeypatch.setattr(_messages, "_remarks", lambda *args: " More.")
    corrected = SimpleNamespace(remaining=None)
    run = SimpleNamespace(message="Converged: so it seems.")
    one = judgement(value)
    asked = problem(tol, allowed), run, None, corrected, one, None
    word = "Converged" if says else "The search ended"
    assert _messages.message_of(*asked) == f"{word}: so it seems. More."


@pytest.mark.parametrize(("se", "unknown"), [(0.1, False), (np.inf, True)])
def test_a_density_whose_error_nothing_bounds_may_miss_something(se, unknown):
    own = DensityError(0.1, se, 0.2)
    assert judgement()._replace(own=own).may_miss == unknown
