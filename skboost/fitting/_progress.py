"""What a run under way says of itself, through `logging`, and how that is shown."""

import logging
import os
import sys
from contextlib import contextmanager, nullcontext
from multiprocessing import current_process
from threading import current_thread, main_thread

from skboost.fitting._stopping import n_searched

_LOGGER = logging.getLogger("skboost")


def log_iteration(run, target):
    """Records of the last iteration: one at INFO, and one of its details at DEBUG."""
    # What a record says may have to be drawn.
    if not _LOGGER.isEnabledFor(logging.INFO):
        return
    info = run.history[-1]
    _LOGGER.info(
        "Iteration %d: ELBO %.6g (standard error %.1g), %.2g nats of KL left, "
        "%d component%s%s.",
        info.iteration,
        info.elbo.value,
        info.elbo.se,
        info.remaining.value,
        info.n_components,
        "s" if info.n_components > 1 else "",
        # Only functions of users are counted.
        f", {target.n_evaluations} evaluations" if target.ledger.counts else "",
        extra={"iteration": info.iteration, "searched": n_searched(run.history)},
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


def log_way(engine, target):
    """A record of how a run begins, which depends on the shape of data, at DEBUG."""
    if not _LOGGER.isEnabledFor(logging.DEBUG):
        return
    begins = engine.begins_with or engine.proposer.way(target)
    _LOGGER.debug("Begins with %s%s.", begins, target.way)


def log_end(run):
    """A record of why a run ended, at INFO."""
    _LOGGER.info("%s", run.message)


@contextmanager
def shown(verbose, limits, budget, ledger):
    """Inside, records go to the standard error, and where `rich` is there a bar
    moves below."""
    if not verbose:
        yield
        return
    level, before = logging.INFO if verbose == 1 else logging.DEBUG, _LOGGER.level
    handler = _Shown(limits, budget, ledger)
    handler.setLevel(level)
    with _bar(handler):
        # Where a bar is drawn, lines written to this stream appear above it.
        handler.setStream(sys.stderr)
        _LOGGER.addHandler(handler)
        _LOGGER.setLevel(min(level, _LOGGER.getEffectiveLevel()))
        try:
            yield
            handler.done = True
        finally:
            _LOGGER.removeHandler(handler)
            _LOGGER.setLevel(before)


class _Shown(logging.StreamHandler):
    """Writes records, and knows from them how far the run is."""

    def __init__(self, limits, budget, ledger):
        super().__init__()
        self._limits, self._budget, self._ledger = limits, budget, ledger
        self._n_iter, self._n_searched, self.done = 0, 0, False

    def emit(self, record):
        self._n_iter = getattr(record, "iteration", self._n_iter)
        self._n_searched = getattr(record, "searched", self._n_searched)
        super().emit(record)

    def look(self):
        """What stands beside a bar, and the used share of the limit that is nearest."""
        n = self._n_iter
        text = f"{n} iteration{'' if n == 1 else 's'}"
        if self._ledger.counts:
            text += f", {self._ledger.n_evaluations:,} evaluations"
        used = self._limits.share_used(n, self._n_searched)
        used = max(used, self._budget.used)
        return text, 1.0 if self.done else min(used, 1.0)


def _bar(handler):
    """A context in which a bar moves; an empty one where none can be drawn."""
    # Processes and threads of a search share a terminal, which has room for one bar.
    main = current_process().name == "MainProcess"
    if not main or current_thread() is not main_thread():
        return nullcontext()
    try:
        from rich import console, progress
    except ImportError:
        return nullcontext()
    terminal = console.Console(stderr=True, soft_wrap=True)
    if not terminal.is_terminal:
        return nullcontext()

    class Bar(progress.Progress):
        """Looks at the run whenever it is drawn, ten times a second."""

        def get_renderables(self):
            for task in self.tasks:
                text, done = handler.look()
                self.update(task.id, description=text, completed=done)
            return super().get_renderables()

    bar = Bar(
        *progress.Progress.get_default_columns()[:-1],
        progress.TimeElapsedColumn(),
        console=terminal,
        # What is written to a file does not belong on the terminal.
        redirect_stdout=os.isatty(1),
    )
    bar.add_task("", total=1.0)
    return bar
