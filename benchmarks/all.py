"""Every table of the documentation measured again, at one clean commit.

    python benchmarks/all.py [--list] [--only NAME ...] [--skip NAME ...] [--resume]
                             [--minutes N] [--hold NAME ...]

Scripts run one after the other and write into ``--out`` (a folder that git ignores);
results and tables of the documentation are replaced when the last has ended. A tree
with changes is refused, and so is one that changes on the way: the JSON files name the
commit that they were measured at. All of them take most of a day, on a machine with
nothing else to do: ``--minutes`` begins no further script after so many, and
``--resume`` keeps what ``--out`` already holds of this commit. ``--hold`` says of
results that their figures are the same at this commit, though code under them changed.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from _harness import commit, parser
from _record import hold

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
NEW = ROOT / "benchmarks" / "new_results"


@dataclass(frozen=True)
class Run:
    """One command: a script, its arguments, its minutes, the files that it writes."""

    script: str
    arguments: tuple = ()
    minutes: float = 1.0
    writes: tuple = field(default=())

    @property
    def name(self):
        """Of the command, for ``--only``, ``--skip`` and the reader."""
        return " ".join([self.script, *self.arguments])

    @property
    def files(self):
        """JSON files of the command."""
        named = self.arguments[self.arguments.index("--name") + 1 :][:1] if (
            "--name" in self.arguments) else (self.script,)  # fmt: skip
        return tuple(f"{name}.json" for name in self.writes or named)


# Of those that `ablation.py` has, all that are fitted within seconds.
_ABLATED = (
    "two modes", "Fig. 1b", "three Student-t", "banana", "ring", "schools, 10-D",
    "ARCH, 4-D", "cross", "Gumbel, 3-D", "funnel, 3-D", "skew normals, 4-D",
    "far bumps, 4-D", "long banana, 5-D", "Poisson, 8-D", "logistic, 25-D",
    "breast cancer, 10-D", "skewed normal, 20-D", "binomial groups, 8-D",
    "horseshoe, 6-D", "probit, 6-D",
)  # fmt: skip

# In the order of the documentation; the longest take hours.
RUNS = (
    Run("many_rows", (), 0.5),
    Run("out_of_core", (), 10),
    Run("dask_workers", (), 10),
    Run("p0_tables", ("--sets", "ds1", "--replicates", "4", "--iterations", "5",
                      "--bases", "laplace"), 10, ("p0_ds1",)),
    Run("p1_solver", ("--replicates", "20"), 60),
    Run("p1_faces", (), 15),
    Run("p0_tables", ("--sets", "eicu", "--rows", "10000", "--generated", "2",
                      "--replicates", "6", "--iterations", "29", "--bases", "laplace",
                      "--methods", "predefined", "--intercepts", "with",
                      "--objectives", "decaying", "--name", "p1_table_2_intercept"),
        15),
    Run("p0_tables", ("--sets", "ds1", "--replicates", "3", "--iterations", "35",
                      "--bases", "laplace", "--intercepts", "no", "--methods",
                      "predefined", "--objectives", "decaying", "--name",
                      "p1_table_1"), 10),
    *(Run("p0_solver", ("--replicates", "10", "--iterations", "50", *arguments), 40,
          (name,))
      for arguments, name in (
          ((), "p0_solver_ds1"),
          (("--intercept",), "p0_solver_ds1_intercept"),
          (("--set", "eicu", "--intercept"), "p0_solver_eicu_intercept"))),
    Run("p0_tables", ("--sets", "eicu", "--replicates", "3", "--iterations", "6",
                      "--rows", "2000", "--bases", "laplace"), 10, ("p0_eicu",)),
    Run("p0_tables", ("--sets", "ds1", "--replicates", "2", "--iterations", "50",
                      "--bases", "laplace", "--objectives", "relbo", "--intercepts",
                      "no", "--form", "lipschitz", "--name", "p0_ds1_lipschitz"), 10),
    Run("p0_tables", ("--sets", "eicu", "--replicates", "1", "--iterations", "12",
                      "--bases", "laplace", "--objectives", "relbo", "--intercepts",
                      "with", "--form", "lipschitz", "--methods", "predefined",
                      "line-search", "AdaFW", "--name", "p0_eicu_all_rows"), 15),
    Run("p0_figures", (), 12),
    Run("p0_figures", ("--grid", "--replicates", "10"), 60, ("p0_grid",)),
    *(Run("p0_figures", ("--grid", "--replicates", "10", "--sets", "ds1",
                         "--corrective", rule), 30, (f"p0_grid_{rule}",))
      for rule in ("away", "pairwise")),
    Run("step_rules", (), 25),
    Run("strategies", (), 10),
    Run("random_component", (), 10),
    Run("targets_1d", (), 0.5),
    Run("posteriordb", (), 8),
    *(Run("price", ("--half", half, "--name", f"price_{half}"), 15)
      for half in ("tuned", "judged")),
    Run("densities", ("--seconds", "30"), 35),
    Run("orbit_curves", (), 7),
    Run("groups", (), 10),
    Run("held_out_groups", (), 2),
    Run("mixed_models", (), 1),
    Run("group_calibration", (), 10),
    Run("ubvi", (), 10),
    Run("ubvi", ("--two",), 0.5, ("ubvi_two",)),
    *(Run("p4_figures", ("--part", part, "--family", family), 60, (f"p4_{part}{end}",))
      for part, family, end in (
          ("fig2", "gaussian", ""), ("cauchy", "gaussian", ""),
          ("banana", "gaussian", ""), ("fig4", "gaussian", ""),
          ("banana", "gaussian-diag", "_diagonal"),
          ("fig4", "gaussian-diag", "_diagonal"))),
    Run("remaining_kl", (), 8),
    Run("calibration", (), 1),
    Run("ablation", ("--targets", *_ABLATED), 15),
    Run("dear_densities", (), 5),
    Run("few_rows", (), 15, ("few_rows_tune", "few_rows_judge")),
    Run("ordered_classes", (), 1),
    Run("effects", (), 4),
    Run("option_costs", (), 3),
    Run("online_streams", (), 6),
    Run("online_streams", ("--hindsight",), 30, ("online_hindsight",)),
    Run("online_streams", ("--average", "--replicates", "5"), 1, ("online_average",)),
    Run("online_streams", ("--many", "581012"), 4, ("online_many",)),
    Run("mixtures", ("--drawn", "0", "48"), 6),
    Run("modes", (), 60),
    Run("p2_figures", (), 10),
    Run("choose_k", (), 20),
    Run("choose_k", ("--temperature", "0.5"), 20, ("choose_k_tempered",)),
    Run("p3_table", (), 0.5),
    Run("svi_plus", (), 20, ("svi_plus_random_from_data",)),
    Run("svi_plus", ("--start", "random"), 20, ("svi_plus_random",)),
    Run("svi_plus", ("--raw",), 20, ("svi_plus_random_from_data_raw",)),
    Run("matrix_factorization", ("faces",), 60, ("matrix_factorization_faces",)),
    Run("matrix_factorization", ("unit_noise",), 60,
        ("matrix_factorization_unit_noise",)),
    Run("matrix_factorization", ("movielens_100k",), 60,
        ("matrix_factorization_movielens_100k",)),
    Run("matrix_factorization", ("fold_in",), 10, ("matrix_factorization_fold_in",)),
    Run("matrix_factorization", ("curves", "--set", "movielens_1m",
                                 "--starts", "4"), 4,
        ("matrix_factorization_curves_1m",)),
    Run("matrix_factorization", ("curves", "--means", "normal", "--starts", "5"), 20,
        ("matrix_factorization_curves_1m_normal",)),
    *(Run("matrix_factorization",
          ("curves", *more, "--methods", "batch", "SVI+, M per embedding, rate 0.85",
           "--name", f"matrix_factorization_curves_1m_{name}"), 10)
      for name, more in (
          ("normal_constant", ("--means", "normal", "--starts", "3")),
          ("embedding", ("--starts", "3", "--ranks", "5")))),
    Run("matrix_factorization", ("residual", "--replicates", "1"), 20,
        ("matrix_factorization_residual",)),
    Run("topics", ("--data", "ap_bow"), 120, ("topics_ap_bow",)),
    Run("topics", ("--data", "nyt_bow"), 240, ("topics_nyt_bow",)),
)  # fmt: skip


def refuse_dirty_tree(beside=()):
    """End where files differ from the commit that tables would name."""
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--", ".", *(f":!{path}" for path in beside)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    if changed:
        sys.exit(
            "The tree must be what its commit says; git status shows:\n"
            f"{changed}\nCommit these changes or remove them."
        )


def done_before(run, out):
    """Whether all files of a command are there, measured at this commit."""
    paths = [out / name for name in run.files]
    if not all(path.exists() for path in paths):
        return False
    found = {json.loads(path.read_text())["commit"] for path in paths}
    return found == {commit()}


def execute(run, options):
    """Run one command, and return whether it ended well."""
    command = [
        sys.executable, str(ROOT / "benchmarks" / f"{run.script}.py"),
        *run.arguments, "--out", str(options.out), "--shared", str(options.shared),
    ]  # fmt: skip
    return subprocess.run(command, cwd=ROOT, env=os.environ).returncode == 0


def publish(out):
    """Put the new results, figures and tables in the place of the old ones."""
    for path in sorted(out.glob("*.json")):
        shutil.copy(path, RESULTS)
    for name in ("figures", "to_rst"):
        script = str(ROOT / "benchmarks" / f"{name}.py")
        subprocess.run([sys.executable, script], cwd=ROOT, check=True)


def main():
    """Run what was asked for, and name what failed."""
    made = parser(__doc__)
    made.set_defaults(out=NEW)
    made.add_argument("--list", action="store_true", help="names and minutes only")
    made.add_argument("--only", nargs="+", default=[""], help="parts of names")
    made.add_argument("--skip", nargs="+", default=[], help="parts of names")
    made.add_argument("--resume", action="store_true", help="keep what is there")
    made.add_argument("--minutes", type=float, default=float("inf"), help="of a part")
    made.add_argument("--hold", nargs="+", metavar="NAME", help="of results")
    options = made.parse_args()
    chosen = [
        run for run in RUNS
        if any(part in run.name for part in options.only)
        and not any(part in run.name for part in options.skip)
    ]  # fmt: skip
    if options.list:
        for run in chosen:
            print(f"{run.minutes:6g} min  {run.name}")
        return 0
    refuse_dirty_tree()
    for name in options.hold or ():
        hold(name, commit())
    return 0 if options.hold else measure(chosen, options)


def measure(chosen, options):
    """Run commands and publish what they found; the exit code."""
    failed, start = [], perf_counter()
    for run in chosen:
        if options.resume and done_before(run, options.out):
            continue
        began = perf_counter()
        if began - start > 60.0 * options.minutes:
            print(f"\n=== {run.name} waits for --resume")
            return 0
        print(f"\n=== {run.name}", flush=True)
        if not execute(run, options):
            failed.append(run.name)
        print(f"=== {(perf_counter() - began) / 60:.1f} minutes", flush=True)
        # Some scripts draw pictures of the documentation at once.
        refuse_dirty_tree(beside=["doc/_static"])
    if failed:
        print("Failed, and nothing was replaced: " + "; ".join(failed))
        return 1
    publish(options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
