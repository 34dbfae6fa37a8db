"""What all benchmarks share: the clock, the table, the JSON file.

Import it before numpy: it asks the numerical libraries for one thread.
"""

import argparse
import datetime
import importlib
import json
import os
import platform
import subprocess
import sys
import time
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402  (after the threads are set)
from _record import digest  # noqa: E402

_ROOT = Path(__file__).resolve().parent.parent
_RESULTS = Path(__file__).resolve().parent / "results"
_PACKAGES = (
    "skboost-vi",
    "numpy",
    "scipy",
    "scikit-learn",
    "autograd",
    "nutpie",
    "pymc",
    "numba",
)


def parser(doc, replicates=None):
    """Command line that every script has: ``--shared``, ``--out``, ``--replicates``."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "--shared",
        type=Path,
        default=Path(os.environ.get("SKBOOST_SHARED", _ROOT.parent / "shared")),
        help="folder with data/ and reference/ (default: SKBOOST_SHARED or ../shared)",
    )
    made.add_argument("--out", type=Path, default=_RESULTS, help="folder of the JSON")
    if replicates is not None:
        made.add_argument("--replicates", type=int, default=replicates)
    return made


def shared_module(shared, folder, name):
    """Module `name` of the shared folder, or None where the folder is not there."""
    if not (shared / folder / f"{name}.py").exists():
        return None
    if str(shared / folder) not in sys.path:
        sys.path.insert(0, str(shared / folder))
    return importlib.import_module(name)


def rival_module(report, name, what):
    """Module `name` of this folder, or None where what it needs is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        report.not_run(what, f"{error.name} is not installed")
        return None


def timed(function, *args, **kwargs):
    """What a call returns, and its CPU and wall seconds; warnings are kept quiet."""
    wall, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = function(*args, **kwargs)
    return value, time.process_time() - cpu, time.perf_counter() - wall


def median_cpu(function, n):
    """Last value of `n` calls and the median of their CPU seconds."""
    runs = [timed(function) for _ in range(n)]
    return runs[-1][0], float(np.median([cpu for _, cpu, _ in runs]))


def mean_and_error(values):
    """Mean and its standard error, nan for a single value."""
    values = np.asarray(values, dtype=float)
    se = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return float(values.mean()), float(se)


def columns(rows):
    """Arrays of figures by name, from a list of dictionaries."""
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def medians(rows):
    """Median of every column of a list of dictionaries."""
    return {name: float(np.median(values)) for name, values in columns(rows).items()}


def elbo_of(log_density, posterior, n=20_000, seed=12345):
    """ELBO and standard error from draws that no fit has seen."""
    theta = posterior.sample(n, random_state=seed)
    ratio = np.asarray(log_density(theta)) - posterior.log_density(theta)
    return float(ratio.mean()), float(ratio.std(ddof=1) / np.sqrt(n))


class Report:
    """Tables that are printed as they come and written as one JSON file.

    Parameters
    ----------
    name : str
        Of the script and of the file.
    out : Path
        Folder of the file.
    settings : dict
        What was run: replicates, iterations, draws.
    """

    def __init__(self, name, out, **settings):
        self.name, self.out = name, Path(out)
        self.script = Path(sys.argv[0]).stem
        self.settings, self.tables = settings, {}
        self.bars, self.not_run_, self.curves = [], [], []
        self.began = time.perf_counter()

    def row(self, table, **columns):
        """Add a row to a table and print it."""
        rows = self.tables.setdefault(table, [])
        if not rows:
            print(f"\n{table}\n" + "  ".join(f"{name:>12}" for name in columns))
        rows.append({name: _plain(value) for name, value in columns.items()})
        print(
            "  ".join(f"{shown(v):>{max(12, len(k))}}" for k, v in rows[-1].items()),
            flush=True,
        )
        self.save()

    def bar(self, what, value, relation, bound, se=0.0):
        """Compare a figure with its bar; a miss is a row, never an error.

        `se` is the standard error of the figure: see `verdict`.
        """
        found = verdict(value, relation, bound, se)
        self.bars.append(
            {"bar": what, "value": _plain(value), "relation": relation,
             "bound": bound, "se": _plain(se), "met": found == "met",
             "verdict": found}
        )  # fmt: skip
        sign = "at most" if relation == "<=" else "at least"
        found = found.upper() if found == "missed" else found
        print(
            f"  bar: {what}: {shown(value)}, {sign} {shown(bound)}: {found}",
            flush=True,
        )
        self.save()

    def curve(self, **columns):
        """Keep the numbers behind a picture; tables and pages leave them out."""
        self.curves.append(columns)

    def not_run(self, what, why):
        """Name what was left out."""
        self.not_run_.append({"what": what, "why": why})
        print(f"not run: {what} ({why})", flush=True)
        self.save()

    def save(self):
        """Write the JSON file."""
        self.out.mkdir(parents=True, exist_ok=True)
        content = {
            "benchmark": self.name,
            "script": self.script,
            "date": datetime.date.today().isoformat(),
            "machine": machine(),
            "versions": versions(),
            "commit": commit(),
            "code": {str(commit()): digest(self.script)},
            "settings": self.settings,
            "seconds_total": round(time.perf_counter() - self.began, 1),
            "bars": self.bars,
            "not_run": self.not_run_,
            "tables": self.tables,
        }
        if self.curves:
            content["curves"] = self.curves
        text = json.dumps(content, indent=1) + "\n"
        (self.out / f"{self.name}.json").write_text(text, encoding="utf-8")


def verdict(value, relation, bound, se=0.0):
    """Met, missed, or undecided: missed by less than two standard errors."""
    se = np.nan_to_num(se)
    excess = value - bound if relation == "<=" else bound - value
    if excess <= 0:
        return "met"
    return "undecided" if excess < 2.0 * se else "missed"


def shown(value):
    """A cell as text."""
    if isinstance(value, float):
        small = value != 0 and abs(value) < 1e-3
        return f"{value:.2e}" if small else f"{value:.5g}"
    return str(value)


def machine():
    """Class of machine, without a name or a path."""
    return f"{os.cpu_count()} shared cores, {platform.machine()}, one thread of BLAS"


def versions():
    """Versions of Python and of what was compared."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def commit():
    """Commit of the checkout, with a plus where files differ from it."""
    try:
        head = _git("rev-parse", "--short", "HEAD")
        changed = _git("status", "--porcelain", "--", "skboost")
        return head + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*arguments):
    done = subprocess.run(
        ["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def _plain(value):
    if isinstance(value, np.generic):
        value = value.item()
    return value
