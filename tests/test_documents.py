"""Code of the README runs; the build of the documentation runs that of its pages."""

import os
import re
import subprocess
import sys
from importlib import import_module
from inspect import isclass, signature
from pathlib import Path

import pytest

import skboost
from skboost.decomposition import RatingRegressor

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "doc"))

from quoted import definitions, figure  # noqa: E402
from sessions import session  # noqa: E402
from siblings import siblings, text_of  # noqa: E402
from tables import quoted_table, shown  # noqa: E402


@pytest.mark.slow
def test_blocks_of_the_readme_run(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    namespace = {"__name__": "__main__"}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 2
    for number, block in enumerate(blocks):
        exec(compile(block, f"README.md, block {number}", "exec"), namespace)


def test_what_pages_include_is_there():
    for path in (ROOT / "doc").rglob("*.rst"):
        for name in re.findall(
            r"^\.\. include:: (\S+)$", path.read_text("utf-8"), re.M
        ):
            assert (path.parent / name).exists(), f"{path.name} includes {name}"


@pytest.mark.parametrize(
    ("pages", "most"),
    [
        ("doc/user_guide/*.rst", 22_000),
        ("doc/benchmarks.rst doc/benchmarks/*.rst", 5_000),
        ("benchmarks/README.md", 2_500),
        ("CHANGELOG.md", 3_000),
    ],
)
def test_pages_do_not_grow(pages, most):
    """What is added to them takes the place of something, by ``wc -w``."""
    texts = [
        path.read_text(encoding="utf-8")
        for one in pages.split()
        for path in ROOT.glob(one)
    ]
    assert texts and sum(len(text.split()) for text in texts) <= most


def test_pages_show_code_with_what_it_prints():
    code = """
import numpy as np

def twice(x):
    return 2 * x

# Values are shown with few digits.
twice(np.arange(3)), 1 / 3   # both
for k in range(2):
    print(k)
np.arange(30)[:, None]
None
"""
    shown = session(code, {})
    assert shown.startswith(
        """>>> import numpy as np

>>> def twice(x):
...     return 2 * x

>>> # Values are shown with few digits.
>>> twice(np.arange(3)), 1 / 3   # both
(array([0, 2, 4]), 0.3333)
>>> for k in range(2):
...     print(k)
0
1
>>> np.arange(30)[:, None]
array([[ 0],
"""
    )
    assert shown.endswith("\n[7 more lines]\n>>> None")


def test_the_gallery_lists_every_example():
    listed = (ROOT / "doc" / "conf.py").read_text(encoding="utf-8")
    examples = [
        path.stem.removeprefix("plot_") for path in ROOT.glob("examples/*/plot_*.py")
    ]
    assert (
        len(examples) > 20
        and [one for one in examples if f'"{one}"' not in listed] == []
    )


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


PAPERS = sorted((ROOT / "doc" / "papers").glob("*.rst"))
# What stands in a paper, a page's own reading of a result, code, files and headings.
NOT_LITERAL = re.compile(
    r"^\.\. code-block:: python\n(?:\n| {3}.*\n)*"
    r"|:(?:figure|paper|math|download|doc|ref|sub):`[^`]*`|``[^`]*``|^\.\. .*$"
    r"|^ +:\w+:.*$|`[^`]*`|(?:section|appendix) [\w.-]+",
    re.MULTILINE | re.IGNORECASE,
)


def test_figures_of_papers_are_those_of_the_results():
    named = [
        name
        for page in PAPERS
        for name in re.findall(r":figure:`([^`]*)`", page.read_text(encoding="utf-8"))
    ]
    assert len(named) > 50
    for name in named:
        assert figure(name)
    known = {f"{page}.{key}" for page, own in definitions().items() for key in own}
    assert known == set(named)


QUOTED = re.compile(r"^\.\. quoted:: (.*)\n((?:   .*\n)*)", re.MULTILINE)


def test_tables_of_benchmarks_are_those_of_the_results():
    named = [
        (files, re.findall(r":(\w+): ((?:.*\n)(?: {6}.*\n)*)", options))
        for page in (ROOT / "doc" / "benchmarks").glob("*.rst")
        for files, options in QUOTED.findall(page.read_text(encoding="utf-8"))
    ]
    assert len(named) > 15
    for files, options in named:
        wanted = {name: text.strip() for name, text in options}
        headings, *rows = quoted_table(files, **wanted)
        assert rows and {len(row) for row in rows} == {len(headings)}


def test_quoted_tables_name_what_is_missing():
    headings, *rows = quoted_table("many_rows", "rows; CPU s / rows=s a row", "more")
    assert headings == ["rows", "s a row"] and "10,000" in [row[0] for row in rows]
    with pytest.raises(ValueError, match="'no such': 0"):
        quoted_table("many_rows", "rows", "no such")
    with pytest.raises(ValueError, match="meets 'rows=7'"):
        quoted_table("many_rows", "rows", where="rows=7")
    with pytest.raises(KeyError, match="seconds"):
        quoted_table("many_rows", "rows; seconds", "more")
    with pytest.raises(ValueError, match="two rows have columns=20"):
        quoted_table("many_rows", "table", "20 columns", pivot="columns: rows")
    given = (0.12345, 123.456, 12345.6, 1e-12, None, float("nan"), True, 4000, "a|b")
    found = ["0.123", "123.5", "12,346", "0", "–", "–", "yes", "4,000", r"a\|b"]
    assert [shown(value) for value in given] == found


def test_pages_of_papers_begin_with_the_call_and_decide_by_files():
    words = {"reproduced", "in part", "not reproduced", "undecided"}
    pages = [page for page in PAPERS if page.stem != "index"]
    assert len(pages) == 5
    for page in pages:
        text = page.read_text(encoding="utf-8")
        call, numbered, verdicts = map(
            text.index,
            (
                ".. code-block:: python",
                ".. list-table:: Public counterparts",
                ".. list-table:: Every ",
            ),
        )
        assert call < numbered < verdicts
        table = text[verdicts:].split("\n   * - ")[2:]
        # What follows the table begins at the margin.
        table[-1] = re.split(r"\n+(?=\S)", table[-1])[0]
        for row in table:
            what, verdict, why = row.split("\n     - ", 2)
            assert verdict.strip() in words, what
            named = re.search(r":(?:results|ref|download):`", why)
            assert named or verdict.strip() == "undecided", what


def test_no_result_stands_on_a_page_as_a_literal():
    """A decimal, a percentage or a number of thousands is read, or a paper's."""
    figures = re.compile(r"\d*\.\d+|\d+ %|\d{1,3},\d{3}")
    for page in PAPERS:
        text = NOT_LITERAL.sub("", page.read_text(encoding="utf-8"))
        assert (page.name, figures.findall(text)) == (page.name, [])


def test_tables_of_methods_are_made_from_the_classes():
    names = ["BoostedBayesianLinearRegression", "OnlineBayesianLinearRegression"]
    alike, rows = siblings(names)
    assert "coef_interval" in alike and "partial_fit" not in alike
    assert rows["staged_predict"] == {names[0]: set(), names[1]: None}
    assert rows["fit"] == {names[0]: {"offset"}, names[1]: set()}
    assert "   * - ``fit``" in text_of(names) and "     - ``offset``" in text_of(names)


def test_tables_of_factors_say_that_the_prior_shrinks_them():
    kinds = [getattr(skboost, name) for name in skboost.__all__]
    tables = {
        getattr(kind, name)
        for kind in kinds
        for name in ("odds_ratios", "rate_ratios")
        if hasattr(kind, name)
    }
    assert len(tables) == 2
    for table in tables:
        assert "The prior pulls factors towards one" in table.__doc__


def test_the_page_that_helps_to_choose_names_every_option():
    page = ROOT / "doc" / "user_guide" / "which.rst"
    text = page.read_text(encoding="utf-8")
    kinds = [getattr(skboost, name) for name in skboost.__all__]
    fitted = [one for one in kinds if hasattr(one, "fit")]
    calls = [*fitted, RatingRegressor, skboost.boost_posterior]
    # The model itself, and what scikit-learn's searches call the same.
    others = {"log_density", "dim", "estimator", "param_grid", "refit", "error_score"}
    options = {one for call in calls for one in signature(call).parameters} - others
    assert len(options) > 80
    assert [one for one in options if f"``{one}=" not in text] == []
    measured = ROOT / "doc" / "benchmarks" / "option_costs.inc"
    assert "``sharpen=True``" in measured.read_text(encoding="utf-8")


def parameters(room):
    """Names that calls of what a module has take."""
    own = [getattr(room, name) for name in dir(room) if not name.startswith("_")]
    kinds = [one for one in own if isclass(one)]
    methods = [
        getattr(kind, name) for kind in kinds for name in dir(kind) if name[0] != "_"
    ]
    calls = [one for one in [*own, *methods] if callable(one)]
    return {name for one in calls for name in known(one)}


def known(call):
    try:
        return signature(call).parameters
    except ValueError:
        return {}


def test_keywords_on_pages_are_those_of_the_package():
    rooms = "callbacks decomposition families inspection linear_model mixture"
    rooms += " model_selection posterior priors strategies transforms"
    names = parameters(skboost).union(
        *(parameters(import_module(f"skboost.{room}")) for room in rooms.split())
    )
    # Of numpy and scikit-learn.
    names |= {"axis", "mmap_mode", "drop", "scoring", "cv"}
    for page in [*(ROOT / "doc" / "user_guide").glob("*.rst"), ROOT / "README.md"]:
        text = page.read_text(encoding="utf-8")
        code = " ".join(re.findall(r"`+([^`\n]+)`+", text))
        unknown = set(re.findall(r"\b([a-z_]+)=(?!=)", code)) - names
        assert (page.name, unknown) == (page.name, set())
