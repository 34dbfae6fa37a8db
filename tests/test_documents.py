"""Every block of Python in the README and the documentation runs, page by page."""

import re
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
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    namespace = {"__name__": "__main__"}
    for number, block in enumerate(blocks(page)):
        where = f"{name_of(page)}, block {number}"
        exec(compile(block, where, "exec"), namespace)
