"""The one command that measures every table again."""

import argparse
import importlib.util
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


def _runs():
    spec = importlib.util.spec_from_file_location("all_benchmarks", FOLDER / "all.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.RUNS


@pytest.mark.slow
def test_scripts_understand_what_the_one_command_says(in_folder, monkeypatch, capsys):
    """An hour of measuring should not end at an argument that no script has."""
    for run in _runs():
        path = FOLDER / f"{run.script}.py"
        compared = ["--other", "."] if run.compares else []
        arguments = [*run.arguments, "--out", ".", "--shared", ".", *compared]
        monkeypatch.setattr(sys, "argv", [str(path), *arguments])
        with pytest.raises(_ParsedError):
            runpy.run_path(str(path), run_name="__main__")
