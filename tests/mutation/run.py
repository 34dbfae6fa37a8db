"""Change one line of the package at a time, and see whether its tests notice.

    python tests/mutation/run.py [--rooms ROOM ...] [--names NAME ...] [--jobs N]

Every file in ``rooms/`` lists the mutations of one room: a name, the file, the text
that is replaced, and what replaces it. Each is applied to a copy of the tree, and tests
are run there until one fails: those that are likely to notice (``first``), then all of
the room, the slow ones last. A mutation that no test notices has survived. `EXCUSED`
names those that may, with the reason.

Exits with 1 where a mutation survives that is not excused, or more than 3 are.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parents[2]
ROOMS = Path(__file__).with_name("rooms")

# At most three may survive, each for a reason.
MAX_EXCUSED = 3
EXCUSED = {}

# A mutation that makes a loop endless is noticed by its seconds.
TIMEOUT = 1800


@dataclass(frozen=True)
class Mutation:
    """One change of one file, and the tests that ought to notice it."""

    room: str
    name: str
    file: str
    old: str
    new: str
    first: tuple
    tests: tuple

    @property
    def path(self):
        """The file that is changed, within the tree."""
        return Path("skboost", self.file)

    @property
    def stages(self):
        """Tests and marks, the ones that are likely to notice first."""
        likely = [(self.first, "not slow")] if self.first else []
        return (*likely, (self.tests, "not slow"), (self.tests, "slow"))

    def apply(self, tree):
        """Change the file in a copy of the tree."""
        path = tree / self.path
        text = path.read_text()
        if text.count(self.old) != 1:
            raise ValueError(
                f"mutation {self.name!r}: its old text must occur once in {self.path}; "
                f"it occurs {text.count(self.old)} times. Mend rooms/{self.room}.toml."
            )
        path.write_text(text.replace(self.old, self.new))


def mutations():
    """All of them, room by room."""
    found = []
    for path in sorted(ROOMS.glob("*.toml")):
        room = tomllib.loads(path.read_text())
        for entry in room["mutation"]:
            first = tuple(entry.pop("first", ()))
            tests = tuple(room["tests"])
            found.append(Mutation(room=path.stem, first=first, tests=tests, **entry))
    return found


def survives(mutation):
    """Whether the tests pass although the mutation is there, and after what seconds."""
    began = perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in ("skboost", "tests"):
            ignored = shutil.ignore_patterns("__pycache__", "mutation")
            shutil.copytree(ROOT / name, tree / name, ignore=ignored)
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, tree)
        mutation.apply(tree)
        passed = all(_passes(tree, *stage) for stage in mutation.stages)
    return passed, perf_counter() - began


def _passes(tree, tests, marker):
    variables = os.environ | {
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*command, "-m", marker, *tests],
            cwd=tree,
            env=variables,
            capture_output=True,
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return False
    no_test_selected = 5
    return done.returncode in (0, no_test_selected)


def main():
    """Run the mutations, print a table by room, and write the survivors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rooms", nargs="*")
    parser.add_argument("--names", nargs="*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    chosen = [
        each
        for each in mutations()
        if (not asked.rooms or each.room in asked.rooms)
        and (not asked.names or each.name in asked.names)
    ]
    with ThreadPoolExecutor(asked.jobs) as pool:
        outcomes = []
        for each, (alive, seconds) in zip(
            chosen, pool.map(survives, chosen), strict=True
        ):
            outcomes.append(alive)
            state = "SURVIVED" if alive else "noticed"
            print(f"{state:8} {seconds:6.1f} s  {each.room}: {each.name}", flush=True)
    survivors = [each for each, alive in zip(chosen, outcomes, strict=True) if alive]
    rows = [
        (room, len(names), sum(each.room == room for each in survivors))
        for room in sorted({each.room for each in chosen})
        for names in [[each for each in chosen if each.room == room]]
    ]
    print(f"\n{'room':16} mutations survivors")
    for room, n, n_alive in rows:
        print(f"{room:16} {n:9d} {n_alive:9d}")
    print(f"{'all':16} {len(chosen):9d} {len(survivors):9d}")
    if asked.json:
        record = {"rooms": rows, "survivors": [each.name for each in survivors]}
        asked.json.write_text(json.dumps(record, indent=1))
    unexpected = [each.name for each in survivors if each.name not in EXCUSED]
    return 1 if unexpected or len(EXCUSED) > MAX_EXCUSED else 0


if __name__ == "__main__":
    sys.exit(main())
