"""What a run under way says of itself, through `logging`, and how that is shown."""

import logging
from contextlib import contextmanager

_LOGGER = logging.getLogger("skboost")


def log_iteration(run, target):
    """Records of the last iteration: one at INFO, and one of its details at DEBUG."""
    info = run.history[-1]
    _LOGGER.info(
        "Iteration %d: ELBO %.6g (standard error %.1g), %.2g nats of KL left, "
        "%d component%s%s.",
        info.iteration,
        *info.elbo,
        info.remaining.value,
        info.n_components,
        "s" if info.n_components > 1 else "",
        # Only functions of users are counted.
        f", {target.n_evaluations} evaluations" if target.ledger.counts else "",
    )
    _LOGGER.debug(
        "Iteration %d: %s, weight %.2g, gain %.2g (standard error %.1g), k-hat %.2g, "
        "%.2g s.",
        info.iteration,
        info.move.kind,
        info.move.gamma,
        *info.gain,
        info.remaining.khat,
        info.seconds,
    )


def log_end(run):
    """A record of why a run ended, at INFO."""
    _LOGGER.info("%s", run.message)


@contextmanager
def shown(verbose):
    """Inside, records go to the standard error: those at INFO, above one at DEBUG."""
    if not verbose:
        yield
        return
    level = logging.INFO if verbose == 1 else logging.DEBUG
    handler, before = logging.StreamHandler(), _LOGGER.level
    handler.setLevel(level)
    _LOGGER.addHandler(handler)
    _LOGGER.setLevel(min(level, _LOGGER.getEffectiveLevel()))
    try:
        yield
    finally:
        _LOGGER.removeHandler(handler)
        _LOGGER.setLevel(before)
