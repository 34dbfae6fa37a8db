"""What ``import skboost`` costs beyond scikit-learn's own import.

    python benchmarks/import_time.py [--replicates 11]

New interpreters, turn by turn. An estimator of scikit-learn's is imported as well: a
bare ``import sklearn`` loads next to nothing.
"""

from _harness import Report, parser  # isort: skip

import subprocess
import sys

import numpy as np

_CODE = """
import resource, time
began = time.perf_counter()
{imports}
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, time.perf_counter() - began)
"""
_IMPORTS = {
    "nothing": "pass",
    "import sklearn": "import sklearn",
    "sklearn.linear_model": "import sklearn.linear_model",
    "skboost": "import sklearn.linear_model, skboost",
}


def cost(imports):
    """CPU seconds of an interpreter and wall seconds of its imports."""
    done = subprocess.run(
        [sys.executable, "-c", _CODE.format(imports=imports)],
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(word) for word in done.stdout.split()]


def main():
    args = parser(__doc__, replicates=11).parse_args()
    report = Report("import_time", args.out, replicates=args.replicates)
    for imports in _IMPORTS.values():
        cost(imports)  # compiles to bytecode
    runs = {name: [] for name in _IMPORTS}
    for _ in range(args.replicates):
        for name, imports in _IMPORTS.items():
            runs[name].append(cost(imports))
    median = {name: np.median(values, axis=0) for name, values in runs.items()}
    for name, (cpu, wall) in median.items():
        report.row("import", what=name, **{"CPU s": cpu, "wall s": wall})
    beyond = median["skboost"] - median["sklearn.linear_model"]
    report.bar("CPU s beyond sklearn.linear_model", beyond[0], "<=", 0.3)
    report.bar("wall s beyond sklearn.linear_model", beyond[1], "<=", 0.3)


if __name__ == "__main__":
    main()
