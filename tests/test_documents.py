"""Every block of Python in the README and the documentation runs, page by page."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "doc").rglob("*.rst")))
    if "_build" not in page.parts and "auto_examples" not in page.parts
]
# Pages whose blocks are not run, and why.
NOT_RUN = {
    "doc/user_guide/adapters.rst": "PyMC, JAX and a compiled Stan model are extras; "
    "tests/adapters run such models where they are installed.",
}
# Pages that need an extra.
NEEDS = {
    "doc/user_guide/any_density.rst": "arviz",
    "doc/user_guide/large_data.rst": "dask.array",
}
FENCED = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
DIRECTIVE = re.compile(
    r"^( *)\.\. code-block:: python\n(?: *:.*\n)*\n((?:\1 +.*\n|\s*\n)+)", re.MULTILINE
)


def blocks(page):
    """The blocks of Python of a page, in order."""
    text = page.read_text(encoding="utf-8") + "\n"
    if page.suffix == ".md":
        return FENCED.findall(text)
    return [textwrap.dedent(found[1]) for found in DIRECTIVE.findall(text)]


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def test_blocks_are_found():
    assert set(NOT_RUN) <= {name_of(page) for page in PAGES}
    assert len(blocks(ROOT / "README.md")) >= 2
    assert sum(bool(blocks(page)) for page in PAGES) >= 8


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if blocks(page) and name_of(page) not in NOT_RUN],
    ids=name_of,
)
def test_blocks_run(page, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    pytest.importorskip(NEEDS.get(name_of(page), "numpy"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    namespace = {"__name__": "__main__"}
    for number, block in enumerate(blocks(page)):
        where = f"{name_of(page)}, block {number}"
        exec(compile(block, where, "exec"), namespace)


def test_the_first_snippet_of_the_readme_prints_what_stands_below_it(capsys):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code, said = re.search(
        r"```python\n(.*?)```\s+```text\n(.*?)```", readme, re.S
    ).groups()
    exec(compile(code, "README", "exec"), {"__name__": "__main__"})
    numbers = [
        [float(x) for x in re.findall(r"\d\.\d+", text)]
        for text in (capsys.readouterr().out, said)
    ]
    # Rounding differs from machine to machine.
    assert len(numbers[0]) == 9 and numbers[0] == pytest.approx(numbers[1], abs=0.011)


@pytest.mark.slow
def test_the_quick_start_prints_what_the_readme_says(tmp_path):
    pytest.importorskip("matplotlib")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    script = re.search(r"python (examples/\S+\.py)", readme)[1]
    done = subprocess.run(
        [sys.executable, str(ROOT / script)],
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        check=True,
    )
    # Rounding differs from machine to machine: by one label, and by a tenth of a point.
    for said, printed, error in (
        (r"(\d+) % of the labels are wrong", r"(\d+) % of the labels are wrong", 1.0),
        (r"elsewhere ([\d.]+) %", r"elsewhere ([\d.]+) %", 0.3),
        (r"([\d.]+) points off the truth", r"averages of pupils +([\d.]+)", 0.1),
        (r"pooled estimates ([\d.]+\d)", r"partial pooling +([\d.]+)", 0.1),
    ):
        expected = float(re.search(said, readme)[1])
        assert float(re.search(printed, done.stdout)[1]) == pytest.approx(
            expected, abs=error
        )
