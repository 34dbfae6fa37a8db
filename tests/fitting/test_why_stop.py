"""Which histories end a run, and why."""

from types import SimpleNamespace

import numpy as np
import pytest

from skboost._budget import End
from skboost.approximation import Estimate
from skboost.boosting import Facts, Move
from skboost.fitting import Limits, why_stop

FACTS = Facts(exact=False, monotone=True, noisy=False, judges_gains=True, unit="nats")
SPENT = End("max_time", "Stopped at max_time=1 seconds.")


def info(
    gain=np.nan, *, se=1e-4, kind="frank-wolfe", gamma=0.5, remaining=0.05, **more
):
    gap = SimpleNamespace(
        value=gain, se=se, certifies=True, candidate=more.pop("candidate", None)
    )
    told = {
        "improper": "", "little_remains": "", "dear": "", "tries_again": False,
        "inconclusive": False, "within_tol": False, "at_node": False, "n_nodes": 0,
        "free": False,
        "n_components": 1, **more,
    }  # fmt: skip
    return SimpleNamespace(
        move=Move(kind, "", gamma), gain=Estimate(gain, se), gap=gap,
        remaining=SimpleNamespace(value=remaining, least=remaining), **told,
    )  # fmt: skip


FIRST = info(kind="first", gamma=1.0)


def ended(*later, facts=FACTS, **limits):
    end = why_stop([FIRST, *later], Limits(**{"max_iter": 10} | limits), facts)
    return None if end is None else end.by


@pytest.mark.parametrize(
    ("last", "by"),
    [
        pytest.param(info(0.1), None, id="gains more than tol"),
        pytest.param(info(1e-3), "tol", id="gains less than tol"),
        # Half of the gain is what the next one is expected to bring.
        pytest.param(info(0.019), "tol", id="next within tol"),
        pytest.param(info(0.021), None, id="next above tol"),
        pytest.param(info(0.021, remaining=20.0), "tol", id="next to nothing"),
        # After a split a search is made first: it reaches farther.
        pytest.param(info(0.011, kind="split"), None, id="split"),
        pytest.param(info(0.011, kind="rejected"), None, id="rejected"),
        pytest.param(info(0.011, gamma=0.0), None, id="no step"),
        pytest.param(info(0.0, gamma=0.0), "tol", id="nothing found"),
        pytest.param(info(1e-3, se=0.2), None, id="noise"),
        pytest.param(info(1e-3, tries_again=True), None, id="a further round follows"),
        pytest.param(
            info(1e-3, tries_again=True, inconclusive=True), None, id="not yet stuck"
        ),
        pytest.param(
            info(1e-3, kind="first", inconclusive=True), None, id="no search so far"
        ),
        pytest.param(info(1e-3, inconclusive=True, remaining=9.0), "stuck", id="stuck"),
        pytest.param(info(0.1, inconclusive=True), None, id="doubtful but gaining"),
        pytest.param(info(0.1, little_remains="Converged: little."), "auto", id="auto"),
        pytest.param(info(0.1, dear="Stopped: images."), "orbits", id="images"),
        pytest.param(
            info(0.1, dear="Stopped: images.", tries_again=True), "orbits", id="dear"
        ),
        pytest.param(info(0.1, improper="Stopped."), "improper", id="improper"),
        pytest.param(
            info(0.1, little_remains="Converged.", improper="Stopped."),
            "improper",
            id="both",
        ),
        pytest.param(info(0.1, within_tol=True), None, id="draws may be blind"),
    ],
)
def test_by_the_gain_of_the_last_iteration(last, by):
    assert ended(last) == by
    assert ended(info(0.1), last) == by


def test_the_first_component_has_no_gain_to_end_by():
    assert why_stop([FIRST], Limits(10, tol=1e6), FACTS) is None
    assert why_stop([FIRST], Limits(1, tol=1e6), FACTS).by == "max_iter"


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("stopping", ["gain", "gap"])
@pytest.mark.parametrize(
    "last",
    [
        info(0.0, se=0.0, gamma=0.0, candidate=Estimate(-1.0, 0.0)),
        info(0.0, se=0.0, gamma=0.0, kind="rejected", candidate=Estimate(-1.0, 0.0)),
        info(0.0, se=0.0, gamma=0.0, inconclusive=True, candidate=Estimate(-1.0, 0.0)),
    ],
    ids=["zero", "rejected", "inconclusive"],
)
def test_a_step_of_length_zero_ends_no_run_without_tolerance(last, stopping, monotone):
    facts = FACTS._replace(monotone=monotone)
    assert ended(last, facts=facts, stopping=stopping, tol=0.0) is None
    assert ended(last, facts=facts, stopping=stopping, tol=0.0, max_iter=2) == (
        "max_iter"
    )
    assert ended(last, facts=facts, stopping=stopping, tol=1e-9) in ("tol", "stuck")


def test_exhausted_draws_end_a_run_whose_expectations_are_exact():
    exact = FACTS._replace(exact=True)
    assert ended(info(0.1, within_tol=True), facts=exact) == "tol"


@pytest.mark.parametrize(
    ("facts", "gain", "by"),
    [
        # Steps that do not minimise can lose ground on their way.
        pytest.param({"monotone": False, "judges_gains": False}, -0.5, None, id="lost"),
        pytest.param({"monotone": True}, -0.5, "tol", id="would be refused"),
        # Where a gain says little of the next, only a small one ends a run.
        pytest.param({"judges_gains": False}, 0.011, None, id="no judge"),
        pytest.param({"noisy": True}, 0.011, None, id="noisy"),
    ],
)
def test_by_what_a_gain_means(facts, gain, by):
    assert ended(info(gain), facts=FACTS._replace(**facts)) == by


@pytest.mark.parametrize(
    ("candidate", "tol", "by"),
    [
        (Estimate(0.0, 0.01), 1e6, "tol"),
        # A search that did worse than the components that are there proves nothing,
        (Estimate(1e7, 0.01), 1e6, None),
        # and nor does one whose noise is larger than what is asked for.
        (Estimate(-0.01, 0.5), 0.1, None),
    ],
)
def test_by_the_duality_gap(candidate, tol, by):
    last = info(0.0, se=0.0, candidate=candidate)
    assert ended(last, stopping="gap", tol=tol) == by
    assert ended(last, stopping="gain", tol=tol) == "tol"


def test_an_end_by_convergence_is_final_where_another_limit_is_reached():
    def end(**more):
        limits, facts = more.get("limits", Limits(10)), more.get("facts", FACTS)
        return why_stop([FIRST, info(1e-3)], limits, facts)

    assert end().converged and not end().final
    assert end(limits=Limits(2)).final
    spent = FACTS._replace(spent=SPENT)
    assert end(facts=spent).final and end(facts=spent).by == "tol"
    assert why_stop([FIRST, info(0.1)], Limits(10), spent) == SPENT
    # Between nodes, too, unless it was so when all had been found.
    node = {"at_node": True, "n_nodes": 5, "n_components": 2}
    told = why_stop([FIRST, info(0.1, **node)], Limits("auto"), spent)
    assert told.by == SPENT.by and "holds 2 of them" in told.message
    free = info(0.1, free=True, **node)
    assert why_stop([FIRST, free], Limits("auto"), spent) is None


def test_no_message_speaks_of_negative_nats():
    end = why_stop([FIRST, info(-0.3)], Limits(max_iter=10), FACTS)
    assert end.message.startswith(
        "Converged: the gain of the best component found is 0"
    )
    seen = info(0.1, within_tol=True, remaining=-0.3)
    end = why_stop([FIRST, seen], Limits(max_iter=10), FACTS._replace(exact=True))
    assert end.message.startswith("Converged: 0 nats are left")
