"""How much code one boosting step enters: files, functions and depth.

    python benchmarks/trace_step.py [--list]

The second iteration of `boost_posterior` on a two-dimensional banana with its
defaults, under `sys.setprofile`: the call of ``Boosting.step``, without the first
component and without the report at the end. Only code of the package is counted:
functions by their names within a file, code objects one by one (three lambdas of a
file are one name and three objects), depth in frames, the step itself being one.
Other commits are traced by the same script: put their checkout first on
``PYTHONPATH``.
"""

import argparse
import sys
import threading
import warnings
from collections import Counter
from pathlib import Path

import autograd.numpy as anp

import skboost
from skboost import boost_posterior

_PACKAGE = str(Path(skboost.__file__).resolve().parent)


def banana(theta):
    x, y = theta[:, 0], theta[:, 1]
    return -0.125 * x**2 - 2.0 * (y - 0.25 * anp.square(x)) ** 2


class Trace:
    """Calls into the package while ``step`` runs."""

    def __init__(self):
        self.calls, self.depth, self.deepest = Counter(), 0, 0

    def __call__(self, frame, event, _):
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(_PACKAGE):
            return
        place = Path(code.co_filename).relative_to(_PACKAGE)
        begins = code.co_name == "step" and place.parts[0] == "boosting"
        if not (self.depth or begins):
            return
        if event == "return":
            self.depth -= 1
            return
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)
        self.calls[place, code.co_firstlineno, code.co_qualname] += 1

    def __enter__(self):
        # Searches may run in threads.
        threading.setprofile(self)
        sys.setprofile(self)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)
        threading.setprofile(None)


def main():
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--list", action="store_true", help="name every function")
    made.add_argument("--seed", type=int, default=0)
    args = made.parse_args()
    warnings.simplefilter("ignore")
    with Trace() as trace:
        boost_posterior(banana, 2, max_iter=2, random_state=args.seed)
    files = {place for place, _, _ in trace.calls}
    names = {(place, name.rpartition(".")[2]) for place, _, name in trace.calls}
    figures = {
        "files": len(files),
        "functions": len(names),
        "code objects": len(trace.calls),
        "depth": trace.deepest,
        "calls": sum(trace.calls.values()),
    }
    print(", ".join(f"{name} {n}" for name, n in figures.items()))
    if args.list:
        for (place, line, name), n in sorted(trace.calls.items()):
            print(f"{n:>8}  {place}:{line}  {name}")


if __name__ == "__main__":
    main()
