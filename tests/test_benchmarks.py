"""The one command that measures every table again."""

import argparse
import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks"


class _ParsedError(Exception):
    """Ends a script once its arguments are understood."""


@pytest.fixture
def in_folder(monkeypatch):
    """Scripts import from their own folder, and none parses arguments for real."""
    monkeypatch.syspath_prepend(str(FOLDER))
    parse = argparse.ArgumentParser.parse_args

    def parsed(self, *args, **kwargs):
        parse(self, *args, **kwargs)
        raise _ParsedError

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parsed)


@pytest.mark.slow
def test_scripts_understand_what_the_one_command_says(in_folder, monkeypatch):
    """An hour of measuring should not end at an argument that no script has."""
    for run in runpy.run_path(str(FOLDER / "all.py"))["RUNS"]:
        path = FOLDER / f"{run.script}.py"
        arguments = [*run.arguments, "--out", ".", "--shared", "."]
        monkeypatch.setattr(sys, "argv", [str(path), *arguments])
        with pytest.raises(_ParsedError):
            runpy.run_path(str(path), run_name="__main__")
