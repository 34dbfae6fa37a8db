"""The list of mutations is whole: every one applies to the package as it is."""

import importlib.util
import json
import subprocess
from pathlib import Path

import pytest

import skboost

_spec = importlib.util.spec_from_file_location(
    "mutation_run", Path(__file__).with_name("run.py")
)
run = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(run)

MUTATIONS = run.mutations()
PACKAGE = Path(skboost.__file__).parent


@pytest.mark.parametrize("room", sorted({each.room for each in MUTATIONS}))
def test_every_mutation_changes_one_place_and_leaves_python(room):
    for each in MUTATIONS:
        if each.room != room:
            continue
        text = (PACKAGE / each.file).read_text()
        assert text.count(each.old) == 1, each.name
        mutated = text.replace(each.old, each.new)
        assert mutated != text, each.name
        compile(mutated, each.file, "exec")


def test_their_tests_are_there():
    for each in MUTATIONS:
        for test in (*each.first, *each.tests):
            assert (run.ROOT / test.split("::")[0]).exists(), (each.name, test)


def test_names_are_unique_and_enough():
    names = [each.name for each in MUTATIONS]
    assert len(set(names)) == len(names)
    assert len(names) >= 120
    assert set(run.EXCUSED) <= set(names)
    assert len(run.EXCUSED) <= run.MAX_EXCUSED


def test_every_package_has_mutations():
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    rooms = {Path(each.file).parent.name for each in MUTATIONS}
    assert packages - rooms == set()


def test_outcomes_are_brought_into_the_file(tmp_path):
    first, second = MUTATIONS[:2]
    run.record(
        [run.Outcome(first, None, 1.0), run.Outcome(second, "a test", 1.0)], tmp_path
    )
    run.record([run.Outcome(first, "a new test", 1.0)], tmp_path)
    tables = json.loads((tmp_path / "mutations.json").read_text())["tables"]
    found = {row["mutation"]: row for row in tables["Mutations"]}
    assert found[first.name]["first run"] == "survived"
    assert found[first.name]["noticed by"] == "a new test"
    assert found[second.name]["now"] == found[second.name]["first run"] == "noticed"


@pytest.mark.parametrize(
    ("seconds", "exit_status", "found"),
    [(190, 0, run.LIMIT), (210, 0, run.UNDECIDED), (10, 1, run.UNDECIDED)],
)
def test_an_endless_loop_is_told_from_tests_that_are_slow_anyway(
    tmp_path, monkeypatch, seconds, exit_status, found
):
    def tests(command, cwd, timeout, **others):
        if cwd == tmp_path or seconds > timeout:
            raise subprocess.TimeoutExpired(command, timeout)
        return subprocess.CompletedProcess(command, exit_status, stdout="")

    monkeypatch.setattr(run.subprocess, "run", tests)
    assert run.noticed(tmp_path, ["a test"], "not slow", 600) == found


def test_what_is_undecided_is_counted_apart(tmp_path):
    first, second = MUTATIONS[:2]
    outcomes = [run.Outcome(first, run.UNDECIDED, 1.0), run.Outcome(second, "it", 1.0)]
    run.record(outcomes, tmp_path)
    tables = json.loads((tmp_path / "mutations.json").read_text())["tables"]
    whole = tables["Mutations by room"][-1]
    states = "noticed now", "survive now", "undecided now"
    assert [whole[state] for state in states] == [1, 0, 1]
