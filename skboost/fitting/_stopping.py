"""Why a run of boosting ends: one pure function of what it has seen."""

from dataclasses import dataclass

from skboost._budget import Budget, End
from skboost._math import N_ERRORS
from skboost._settings import GAIN_DECAY

# The `max_iter` that cuts no node.
AUTO = "auto"
# Iterations that it allows, those over nodes together counted as one; and of these, for
# every node. Steps that minimise take each node once.
_MOST_SEARCHED, _MOST_EACH = 10, 40


@dataclass(frozen=True)
class Limits:
    """What a user allows a run, and the gain or gap in nats at which it converges.

    ``max_iter="auto"`` leaves out no component of a first mixture, whose iterations
    together count as one of at most ten.
    """

    max_iter: int | str
    stopping: str = "gain"
    tol: float = 1e-2
    max_time: float | None = None
    max_evaluations: float = float("inf")

    def share_used(self, n_iter, n_searched):
        """The share of the allowed iterations that is used."""
        if self.max_iter == AUTO:
            return n_searched / _MOST_SEARCHED
        return n_iter / self.max_iter

    def budget(self, target, clock):
        """What a run that begins now may spend."""
        return Budget(self.max_time, self.max_evaluations, target.ledger, clock)


def why_stop(history, limits, facts):
    """The `End` of a run after its last iteration, or None where it goes on.

    An end by convergence is final where the run would have to end in any case.
    """
    converged = has_converged(history, limits, facts)
    other = must_end(history, limits, facts)
    return converged._replace(final=other is not None) if converged else other


def has_converged(history, limits, facts):
    """The `End` of a run whose last iteration shows convergence, or None."""
    info = history[-1]
    # Draws of the mixture never see a mode far off: a search has to look for it,
    # unless the target is one whose expectations are exact.
    if info.within_tol and facts.exact:
        message = (
            f"Converged: {max(info.remaining.value, 0.0):.2g} nats are left, below "
            "tol, as far as draws of the mixture can see."
        )
        return End("tol", message)
    if info.little_remains and not info.improper:
        return End(facts.little, info.little_remains)
    open_question = info.tries_again or info.inconclusive
    if _is_opening(info) or info.improper or open_question:
        return None
    message = _within_tol(info, limits, facts) or _next_is_worth_little(
        info, limits, facts
    )
    return End("tol", message) if message else None


def must_end(history, limits, facts):
    """The `End` of a run that ends without convergence, or None."""
    info = history[-1]
    if info.improper:
        return End("improper", info.improper)
    began = _is_opening(info) or info.tries_again
    if not began and info.inconclusive and _is_small(info, limits, facts):
        left = info.remaining
        seen = f"at least {left.least:.2g}" if left.least > 0.0 else "many"
        message = (
            "Stopped: searches find nothing that gains more than tol, and draws see "
            f"{seen} nats of KL left."
        )
        return End("stuck", message)
    if info.dear:
        return End("orbits", info.dear)
    if _reached(history, limits):
        message = (
            f"Stopped at max_iter={limits.max_iter!r}; more iterations may gain more."
        )
        return End("max_iter", message + _of_nodes(info))
    # Nodes that are found come in whatever was spent, each of them once.
    if not facts.spent or (info.free and len(history) < info.n_nodes):
        return None
    return facts.spent._replace(message=facts.spent.message + _of_nodes(info))


def _of_nodes(info):
    """How many nodes have a weight, while iterations over them go on."""
    if not info.n_nodes:
        return ""
    return (
        f" There are {info.n_nodes} components to begin with, one for each value of a "
        f"scale, a kind of prior or a mode; the mixture holds {info.n_components} of "
        "them."
    )


def n_searched(history):
    """Iterations, those over nodes counted as one."""
    return 1 + sum(not _is_opening(info) for info in history[1:])


def _is_opening(info):
    """Whether an iteration took what the first search had found."""
    return info.move.kind == "first" or info.at_node


def _reached(history, limits):
    """Whether a run has all the iterations that are allowed."""
    if limits.max_iter != AUTO:
        return len(history) >= limits.max_iter
    n_nodes = history[-1].n_nodes
    if n_nodes:
        return len(history) >= _MOST_EACH * n_nodes
    return n_searched(history) >= _MOST_SEARCHED


def _within_tol(info, limits, facts):
    """That the last iteration gained no more than `tol`; empty where it gained more."""
    if not _is_small(info, limits, facts):
        return ""
    estimate = _compared(info, limits)
    # What would lose is not taken.
    found = max(estimate.value, 0.0)
    return (
        f"Converged: the {limits.stopping} of the best component found is "
        f"{found:.2g} {facts.unit} (standard error {estimate.se:.1g}), within tol."
    )


def _next_is_worth_little(info, limits, facts):
    """That the next iteration is expected to gain next to nothing; empty otherwise."""
    by_gain = limits.stopping == "gain" and facts.judges_gains and not facts.noisy
    # A split reaches what is near: a search is tried before a run ends.
    searched = info.move.kind not in ("split", "rejected") and info.move.gamma > 0
    if not (by_gain and searched):
        return ""
    gain = info.gain
    expected = GAIN_DECAY * (gain.value + N_ERRORS * gain.se)
    # At that rate a run would need a thousand iterations.
    negligible = 1e-3 * info.remaining.value
    if expected <= limits.tol:
        reason = "within tol"
    elif limits.tol and expected <= negligible:
        reason = "next to nothing of what draws see left"
    else:
        return ""
    return (
        f"Converged: the last component gained {gain.value:.2g} {facts.unit} "
        f"(standard error {gain.se:.1g}), and the next is expected to gain half of "
        f"it, {reason}."
    )


def _is_small(info, limits, facts):
    """Whether an iteration's gain or gap is surely within `tol`."""
    # Who asks for nothing less than 0 asks for all iterations, as Algorithm 1 has them:
    # a step of length 0 gains exactly that, and the next may gain more.
    if limits.tol == 0.0:
        return False
    estimate = _compared(info, limits)
    # Steps that do not minimise can lose ground on their way: that is no end.
    size = estimate.value if facts.monotone else abs(estimate.value)
    if not size + N_ERRORS * estimate.se <= limits.tol:
        return False
    if limits.stopping != "gap":
        return True
    # A search that did worse than the components that are there proves nothing, and
    # nor does a noisy one beside a single component, whose own gap is exactly zero.
    candidate = estimate.candidate
    return (
        estimate.certifies and candidate.value + N_ERRORS * candidate.se <= limits.tol
    )


def _compared(info, limits):
    """The estimate that is compared with `tol`."""
    return info.gap if limits.stopping == "gap" else info.gain
