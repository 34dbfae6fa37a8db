"""Exported files find the columns of a data frame by name, or refuse by name."""

import runpy

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from ..cases import KINDS, LINEAR, ONLINE, SVI, each

CASES = KINDS | ONLINE | SVI | {"exposure": LINEAR["negative binomial"]}


@each(
    CASES, "export",
    slow=(
        "groups, ordered", "groups, poisson", "groups, classes", "ordered classes",
        "exposure",
    ),
)  # fmt: skip
def test_columns_in_another_order_give_the_same_answers(name, tmp_path):
    case = CASES[name]
    frame = pd.DataFrame(case.X, columns=[*"abc"][: case.X.shape[1]])
    model = case.new(max_iter=1, **{"groups": ["c"]} if "groups" in name else {})
    model.fit(**case.data() | {"X": frame})
    model.export(tmp_path / "file.py")
    written = runpy.run_path(str(tmp_path / "file.py"))
    what = "predict_proba" if hasattr(model, "predict_proba") else "predict"
    offset = dict(case.offset)
    if "exposure" in offset:
        offset = {"offset": np.log(offset["exposure"])}
    expected = getattr(model, what)(frame, **case.offset)
    for X in (frame, frame.iloc[:, ::-1].assign(other="x"), case.X):
        assert_allclose(written[what](X, **offset), expected, rtol=1e-9)
    with pytest.raises(ValueError, match="none named 'b'"):
        written["predict"](frame.iloc[:, ::-1].drop(columns="b"), **offset)
    # Names that are no strings are none, as in scikit-learn.
    numbered = pd.DataFrame(case.X)
    assert_allclose(written[what](numbered, **offset), expected, rtol=1e-9)
    dates = np.full(case.X.shape, np.datetime64("2020-01-01"))
    with pytest.raises(ValueError, match="got dates"):
        written["predict"](dates, **offset)
