"""Change one line of the package at a time, and see whether its tests notice.

    python tests/mutation/run.py [--rooms ROOM ...] [--names NAME ...] [--jobs N]
                                 [--quick] [--out benchmarks/results]
                                 [--sample N --seed TEXT]

Every file in ``rooms/`` lists the mutations of one room: a name, the file, the text
that is replaced, and what replaces it. Each is applied to a copy of the tree, and tests
are run there until one fails: those that are likely to notice (``first``), then all of
the room, the slow ones last. A mutation that no test notices has survived. `EXCUSED`
names those that may, with the reason. Tests that reach the limit of time have noticed
an endless loop where the tree without the mutation needs less than a third of the limit
for them; elsewhere they were only slow, and the mutation is undecided. Both are counted
apart. ``--quick`` leaves the slow tests out. ``--out`` brings the outcomes into
``mutations.json``, of which ``benchmarks/to_rst.py`` makes the table of the
documentation; those of other rooms, of earlier calls, stay there.
``--sample`` takes N of them, which the seed names: CI has a few minutes, and others at
every commit.

Exits with 1 where a mutation survives that is not excused, or more than 3 are.
"""

import argparse
import json
import os
import random
import re
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
SURVIVED = "survived"
UNDECIDED = "undecided"

# A mutation that makes a loop endless is noticed by its seconds: it reaches the limit,
# and the unchanged tree needs less than the limit divided by `MARGIN`. Without the
# second, tests on a loaded machine would notice whatever they have no time for.
TIMEOUT = 600
MARGIN = 3
LIMIT = "the limit of time"


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

    def stages(self, quick):
        """Tests and marks, the ones that are likely to notice first."""
        likely = [(self.first, "not slow")] if self.first else []
        slow = [] if quick else [(self.tests, "slow")]
        return (*likely, (self.tests, "not slow"), *slow)

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


@dataclass(frozen=True)
class Outcome:
    """What noticed a mutation (None: it has survived), and after how many seconds."""

    mutation: Mutation
    noticed_by: str | None
    seconds: float

    @property
    def state(self):
        """Noticed, survived or undecided."""
        return {None: SURVIVED, UNDECIDED: UNDECIDED}.get(self.noticed_by, "noticed")


def outcome(mutation, quick=False, limit=TIMEOUT):
    """Run the tests of a copy of the tree that has the mutation, within a limit."""
    began = perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in ("skboost", "tests"):
            ignored = shutil.ignore_patterns("mutation")
            shutil.copytree(ROOT / name, tree / name, ignore=ignored)
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, tree)
        mutation.apply(tree)
        failures = (noticed(tree, *stage, limit) for stage in mutation.stages(quick))
        found = next(filter(None, failures), None)
    return Outcome(mutation, found, perf_counter() - began)


def noticed(tree, tests, marker, limit):
    """The first test that fails, an endless loop, neither (None), or `UNDECIDED`."""
    found = failure(tree, tests, marker, limit)
    if found == LIMIT and failure(ROOT, tests, marker, limit / MARGIN) is not None:
        return UNDECIDED
    return found


def failure(tree, tests, marker, limit):
    """The first test of a tree that fails, the limit of time, or None."""
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
            text=True,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        return LIMIT
    no_test_selected = 5
    if done.returncode in (0, no_test_selected):
        return None
    named = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    return named[1] if named else f"pytest's exit status {done.returncode}"


def by_room(rows):
    """How many mutations are noticed; rooms where all always were are one row."""
    lost = {SURVIVED, UNDECIDED}
    weak = sorted({row["room"] for row in rows if lost & set(row.values())})
    others = [row for row in rows if row["room"] not in weak]
    groups = [(room, [row for row in rows if row["room"] == room]) for room in weak]
    n_others = len({row["room"] for row in others})
    groups += [(f"{n_others} other rooms", others), ("all", rows)]
    return [
        {
            "room": name,
            "mutations": len(own),
            "survived when first run": sum(row["first run"] == SURVIVED for row in own),
            "noticed now": sum(row["now"] == "noticed" for row in own),
            "survive now": sum(row["now"] == SURVIVED for row in own),
            "undecided now": sum(row["now"] == UNDECIDED for row in own),
        }
        for name, own in groups
    ]


def record(outcomes, out):
    """Bring the outcomes into ``mutations.json``; what happened first is kept."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from _harness import Report, commit

    path, report = Path(out, "mutations.json"), Report("mutations", out)
    before = json.loads(path.read_text())["tables"] if path.exists() else {}
    table = {row["mutation"]: row for row in before.get("Mutations", [])}
    for each in outcomes:
        name = each.mutation.name
        table[name] = {
            "room": each.mutation.room,
            "mutation": name,
            "now": each.state,
            "first run": table.get(name, {"first run": each.state})["first run"],
            "noticed by": each.noticed_by,
            "commit": commit(),
        }
    known = {each.name for each in mutations()}
    rows = [row for name, row in table.items() if name in known]
    report.tables = {"Mutations by room": by_room(rows), "Mutations": rows}
    report.save()


def main():
    """Run the mutations and print what noticed each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rooms", nargs="*")
    parser.add_argument("--names", nargs="*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sample", type=int, metavar="N")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    chosen = [
        each
        for each in mutations()
        if (not asked.rooms or each.room in asked.rooms)
        and (not asked.names or each.name in asked.names)
    ]
    if asked.sample is not None:
        drawn = random.Random(asked.seed)
        chosen = drawn.sample(chosen, min(asked.sample, len(chosen)))
    outcomes = []
    with ThreadPoolExecutor(asked.jobs) as pool:
        for done in pool.map(lambda each: outcome(each, asked.quick), chosen):
            outcomes.append(done)
            what = f"{done.mutation.room}: {done.mutation.name}"
            found = done.noticed_by or SURVIVED.upper()
            print(f"{done.seconds:6.1f} s  {what}: {found}", flush=True)
            if asked.out:
                record([done], asked.out)
    names = {
        found: [each.mutation.name for each in outcomes if each.noticed_by == found]
        for found in (None, LIMIT, UNDECIDED)
    }
    print()
    for found, own in names.items():
        print(f"{len(own)} of {len(outcomes)}, {found or SURVIVED}: {own}")
    unexpected = set(names[None]) - set(EXCUSED)
    return 1 if unexpected or len(EXCUSED) > MAX_EXCUSED else 0


if __name__ == "__main__":
    sys.exit(main())
