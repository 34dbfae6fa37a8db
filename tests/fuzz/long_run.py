"""Run the fuzz of estimators for long, and count what becomes of the cases.

    python tests/fuzz/long_run.py [--seconds 600] [--seed 0] [--only NAME ...]

Each estimator has the same share of the time. A line says how many cases were fitted
and how many refused with a ValueError; a case that fails is shown as hypothesis found
it, and the exit status is then 1.
"""

import argparse
import sys
import time
import traceback
from collections import Counter

import hypothesis
from hypothesis import Phase, given
from hypothesis import strategies as st
from test_estimators import ESTIMATORS, outcome_of, settings_of

BATCH = 20


def batch(name, seed, outcomes):
    """Run some cases that the seed names."""
    options = hypothesis.settings(
        settings_of(BATCH), derandomize=False, phases=[Phase.generate]
    )

    @hypothesis.seed(seed)
    @options
    @given(drawn=st.data())
    def run(drawn):
        outcomes[outcome_of(name, drawn)] += 1

    run()


def main(arguments):
    """Return the number of failures."""
    names = [n for n in ESTIMATORS if not arguments.only or n in arguments.only]
    total, failures = Counter(), 0
    for name in names:
        outcomes, seed = Counter(), arguments.seed
        ends = time.monotonic() + arguments.seconds / len(names)
        while time.monotonic() < ends:
            try:
                batch(name, seed, outcomes)
            except Exception:
                outcomes["failed"] += 1
                failures += 1
                sys.stdout.write(traceback.format_exc(limit=-3))
            seed += 1
        total += outcomes
        sys.stdout.write(f"{name}: {dict(outcomes)}\n")
        sys.stdout.flush()
    sys.stdout.write(f"all: {dict(total)}\n")
    return failures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[])
    sys.exit(bool(main(parser.parse_args())))
