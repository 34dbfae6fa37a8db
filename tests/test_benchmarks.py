"""Scripts that measure: each starts, and the one command says what they understand."""

import argparse
import os
import runpy
import sys
from importlib import import_module
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("[!_]*.py"))


class _ParsedError(Exception):
    """Ends a script once its arguments are understood."""


@pytest.fixture(scope="module")
def scripts():
    """Scripts import each other from their folder; none of that outlasts the tests."""
    matplotlib = pytest.importorskip("matplotlib")
    before = os.environ.copy()
    with pytest.MonkeyPatch.context() as patch, matplotlib.rc_context():
        patch.syspath_prepend(str(FOLDER))
        yield import_module
    os.environ.clear()
    os.environ.update(before)
    for path in FOLDER.glob("*.py"):
        sys.modules.pop(path.stem, None)


@pytest.fixture
def in_folder(scripts, monkeypatch):
    """None parses arguments for real."""
    parse = argparse.ArgumentParser.parse_args

    def parsed(self, *args, **kwargs):
        parse(self, *args, **kwargs)
        raise _ParsedError

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parsed)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_start(scripts, name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert ended.value.code == 0
    assert "--help" in capsys.readouterr().out


def test_rules_step_toward_a_component_at_random(scripts):
    """In 100 dimensions the published rule goes on, and what it knows is the slope."""
    script = scripts("random_component")
    rule = script.RULES["adaptive as published"]
    found = [rule(script.Run(100, seed))[0] for seed in range(60)]
    assert sum(gamma == 0.0 for gamma in found) <= 0.1 * len(found)
    # Every rule runs, and no step leaves the simplex.
    for gamma, branch in (rule(script.Run(2, 0)) for rule in script.RULES.values()):
        assert 0.0 <= gamma <= 1.0 and branch


@pytest.mark.slow
def test_scripts_understand_what_the_one_command_says(in_folder, monkeypatch):
    """An hour of measuring should not end at an argument that no script has."""
    for run in runpy.run_path(str(FOLDER / "all.py"))["RUNS"]:
        path = FOLDER / f"{run.script}.py"
        arguments = [*run.arguments, "--out", ".", "--shared", "."]
        monkeypatch.setattr(sys, "argv", [str(path), *arguments])
        with pytest.raises(_ParsedError):
            runpy.run_path(str(path), run_name="__main__")
