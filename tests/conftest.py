"""Environment of the tests; read before NumPy and SciPy are imported."""

import gc
import os

import pytest

# Some of scikit-learn's common checks only run with it.
os.environ.setdefault("SCIPY_ARRAY_API", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
if "PYTEST_XDIST_WORKER" in os.environ:
    # One worker per core: more threads each would only get in each other's way.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@pytest.fixture
def rng():
    """Random numbers, the same for every test."""
    import numpy as np  # once the variables above are set

    return np.random.default_rng(0)


class Extra:
    """A package that tests import where they use it: no run waits for it before."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        if name.startswith("_"):  # pytest looks at what a module holds
            raise AttributeError(name)
        return getattr(pytest.importorskip(self._name), name)


class Listener:
    """A callback that hears everything and does nothing."""

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass


class Hook(Listener):
    """Hears everything; may stop or fail where an iteration begins or has ended."""

    def __init__(self, stops_at=None, fails_at=None, when="end", error=None):
        self.calls, self.heard, self.metadata = [], [], []
        self.stops_at, self.fails_at, self.when = stops_at, fails_at, when
        self.error = KeyboardInterrupt if error is None else error

    def setup(self, estimator, context):
        self.calls.append("setup")

    def teardown(self, estimator, context):
        self.calls.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, metadata=None):
        self.metadata.append(metadata)
        self._heard("begin", context)

    def on_fit_task_end(self, estimator, context, *, X, y, fitted_estimator):
        self.heard.append((X, y, fitted_estimator))
        return self._heard("end", context) == self.stops_at

    def _heard(self, when, context):
        """How often an iteration has begun or ended."""
        self.calls.append(f"{when} {context.task_name}")
        n = self.calls.count(f"{when} iteration")
        if (when, n, context.task_name) == (self.when, self.fails_at, "iteration"):
            raise self.error
        return n


def interrupted(model, data, iteration, when="end"):
    """The model after a fit that was interrupted at an iteration."""
    hook = Hook(fails_at=iteration, when=when)
    with pytest.raises(KeyboardInterrupt) as caught:
        model.set_callbacks(hook).fit(**data)
    assert type(caught.value) is KeyboardInterrupt
    assert hook.calls.count("teardown") == 1
    return model.set_callbacks()


# Why a test may be skipped although every extra is installed.
SKIPS = (
    "BridgeStan can not compile here",  # it downloads its C++ sources
    "this version of ArviZ has no psislw",
    "the moments of a random length are not matched",
)


# Where pytest keeps what a run has skipped: tests, and files as wholes.
SKIPPED = "skboost/skipped"
# Its tests look at more where an extra is installed, and skip nothing where it is not.
LOOKS_AT_MORE = "tests/test_dates.py"


def pytest_addoption(parser):
    parser.addoption(
        "--no-other-skips",
        action="store_true",
        help="fail if a test is skipped for a reason that tests/conftest.py has not",
    )
    parser.addoption(
        "--only-skipped",
        action="store_true",
        help="run what the last run in this folder skipped, for want of an extra",
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Modules, trees and items stay: no garbage is looked for among them, ever."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


# Of fits with few iterations; tests that are about it ask for it.
QUIET = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def pytest_collection_modifyitems(config, items):
    """Say nothing of fits that end early; leave what was skipped, if that is asked."""
    for item in items:
        item.add_marker(QUIET, append=False)
    if config.getoption("--only-skipped"):
        asked = {LOOKS_AT_MORE, *config.cache.get(SKIPPED, [])}
        named = [{item.nodeid, item.nodeid.partition("::")[0]} for item in items]
        items[:] = [i for i, names in zip(items, named, strict=True) if names & asked]


def pytest_sessionfinish(session):
    """Skips are kept for a later run; one that nobody has allowed is a failure."""
    config = session.config
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:  # a worker of pytest-xdist; its controller looks at all
        return
    skipped = reporter.stats.get("skipped", [])
    if hasattr(config, "cache") and not config.getoption("--only-skipped"):
        config.cache.set(SKIPPED, sorted({report.nodeid for report in skipped}))
    if not config.getoption("--no-other-skips"):
        return
    reasons = {report.longrepr[2] for report in skipped}
    others = [text for text in reasons if not any(known in text for known in SKIPS)]
    if others:
        reporter.write_line(f"\nSkips that tests/conftest.py does not allow: {others}")
        session.exitstatus = 1
