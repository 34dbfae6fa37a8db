"""Scripts that measure: each starts, and the one command says what they understand."""

import argparse
import json
import os
import re
import runpy
import sys
from importlib import import_module
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("[!_]*.py"))


RESULTS = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted((FOLDER / "results").glob("*.json"))
    if path.stem != "mutations"
}


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
    found = [rule(script.Run(100, seed))[0] for seed in range(20)]
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


def test_one_command_writes_every_result(scripts):
    """None is left whose script is gone, and every script that measures is run."""
    runs = scripts("all").RUNS
    written = {name: run.script for run in runs for name in run.files}
    assert {f"{name}.json": one["script"] for name, one in RESULTS.items()} == written
    no_results = {"all", "figures", "record_fits", "to_rst", "trace_step"}
    assert {run.script for run in runs} | no_results == set(SCRIPTS)


def test_pages_say_which_results_are_of_older_code(scripts):
    """The build writes it into doc/; these two pages are read as they are."""
    made = scripts("to_rst").scripts_table(RESULTS)
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert made in page, "python benchmarks/to_rst.py writes the table"
    is_current = scripts("_record").is_current
    readme = (FOLDER.parent / "README.md").read_text(encoding="utf-8").splitlines()
    named = [
        (line, name) for line in readme for name in re.findall(r"(\w+)\.json", line)
    ]
    assert named
    for line, name in named:
        assert is_current(RESULTS[name]) or "older code" in line, name


def test_links_to_results_have_their_age():
    for path in (FOLDER.parent / "doc").rglob("*.rst"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"results/\w+\.json", text), f"{path}: use :results:"


def test_pictures_are_of_the_present_results(scripts):
    """A picture of numbers that have been measured again would contradict its page."""
    fingerprint, named = (
        scripts("_record").fingerprint,
        re.compile(rb"Results\0({.*?})"),
    )
    for path in (FOLDER.parent / "doc" / "_static").glob("*.png"):
        # A sketch without numbers, and what an example draws.
        if path.stem in ("p4_fig1a", "quickstart"):
            continue
        found = named.search(path.read_bytes())
        assert found, f"{path.name} does not say what it was drawn from"
        for name, drawn in json.loads(found[1]).items():
            assert drawn == fingerprint(RESULTS[name]), f"draw {path.name} again"


@pytest.fixture
def tree(scripts, tmp_path, monkeypatch):
    """A package of two rooms, a script that needs one of them, and its digest."""
    record = scripts("_record")
    monkeypatch.setattr(record, "ROOT", tmp_path)
    files = {
        "benchmarks/asks.py": "from skboost import Model\n",
        "skboost/__init__.py": "from skboost.room import Model\nfrom .b import B",
        "skboost/room.py": '"""Of models."""\nfrom skboost.deep import (\n    x,\n)\n',
        "skboost/deep.py": "x = 1\n",
        "skboost/b.py": "B = 1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    cached = ("_code", "_file", "_imports", "_needed", "code_under", "_stamp", "digest")

    def digest():
        for name in cached:
            getattr(record, name).cache_clear()
        return record.digest("asks")

    yield tmp_path / "skboost", digest, record
    for name in cached:
        getattr(record, name).cache_clear()


def test_a_result_is_of_older_code_where_code_under_it_changed(tree):
    folder, digest, record = tree
    content = {"script": "asks", "commit": "abc1234", "code": {"abc1234": digest()}}
    assert record.age(content) == "commit abc1234"
    (folder / "b.py").write_text("B = 2\n")  # not under the script
    (folder / "deep.py").write_text('"""Said anew."""\n# why\n\nx = 1\n')
    assert digest() in content["code"].values()
    (folder / "deep.py").write_text("x = 2\n")
    found = digest()
    assert record.age(content) == "commit abc1234, older code"
    # A later commit at which the figures were found to be the same.
    content["code"]["def5678"] = found
    assert record.age(content) == "commit abc1234"
    assert record.age(content | {"script": "gone"}) == "commit abc1234, older code"
    assert record.age({"commit": "abc1234"}) == "commit abc1234, older code"
