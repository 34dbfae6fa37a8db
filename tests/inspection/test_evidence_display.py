import sys

import numpy as np
import pytest
from scipy.stats import rankdata
from sklearn.exceptions import NotFittedError

from skboost import EvidenceSearch
from skboost.inspection import EvidenceDisplay

from ..kinds import Logistic

pytest.importorskip("matplotlib").use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


def searched(params, elbo, se=0.1):
    """A fitted search without the work."""
    search = EvidenceSearch(Logistic(), {})
    elbo = np.asarray(elbo, dtype=float)
    search.cv_results_ = {
        "params": params,
        "elbo": elbo,
        "elbo_se": np.full(len(elbo), se),
        "rank_elbo": rankdata(-np.where(np.isnan(elbo), -np.inf, elbo)),
    }
    search.best_index_ = int(np.argmin(search.cv_results_["rank_elbo"]))
    return search


NUMBERS = [{"k": k, "fixed": "a"} for k in (3, 1, 2)]


def curves(ax):
    """x and y of the lines with error bars, by label."""
    return {
        bars.get_label(): np.array(bars.lines[0].get_data()) for bars in ax.containers
    }


def test_elbo_against_the_parameter_that_varies():
    display = EvidenceDisplay.from_estimator(searched(NUMBERS, [-5.0, -9.0, -4.0]))
    display.figure_.draw_without_rendering()
    ((x, y),) = curves(display.ax_).values()
    assert x.tolist() == [1, 2, 3]
    assert y.tolist() == [-9, -4, -5]
    assert display.ax_.get_xlabel() == "k"
    assert display.ax_.get_ylabel() == "ELBO ± 2 se (nats)"
    labels = [text.get_text() for text in display.figure_.legends[0].get_texts()]
    assert sorted(labels) == ["ELBO", "chosen: 2"]
    assert all(float(tick).is_integer() for tick in display.ax_.get_xticks())
    for segment in display.ax_.collections[0].get_segments():
        assert np.ptp(segment[:, 1]) == pytest.approx(0.4)


def test_other_parameters_make_lines():
    params = [{"k": k, "type": t} for k in (1, 2) for t in ("full", "diag")]
    search = searched(params, [-4.0, -3.0, -2.0, -1.0])
    found = curves(EvidenceDisplay.from_estimator(search, param="k").ax_)
    assert found.keys() == {"type=full", "type=diag"}
    assert found["type=full"].tolist() == [[1, 2], [-4, -2]]
    ax = EvidenceDisplay.from_estimator(search, param="type").ax_
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["full", "diag"]
    assert curves(ax)["k=2"].tolist() == [[0, 1], [-2, -1]]
    with pytest.raises(ValueError, match=r"one of \['k', 'type'\]; got None"):
        EvidenceDisplay.from_estimator(search)
    with pytest.raises(ValueError, match="got 'K'"):
        EvidenceDisplay.from_estimator(search, param="K")


def test_rows_without_the_parameter_and_what_is_not_finite_are_gaps(recwarn):
    search = searched([{"k": 1}, {"k": 2}, {"other": 3}], [-4.0, -3.0, -2.0])
    ax = EvidenceDisplay.from_estimator(search, param="k").ax_
    assert curves(ax)["ELBO"].tolist() == [[1, 2], [-4, -3]]
    search = searched(NUMBERS, [np.nan, -np.inf, -4.0], se=np.nan)
    display = EvidenceDisplay.from_estimator(search)
    display.figure_.draw_without_rendering()
    ((_, y),) = curves(display.ax_).values()
    assert np.isnan(y).tolist() == [True, False, True]
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]


def test_a_single_candidate_and_odd_values_in_own_axes():
    for value in (True, None, [1, 2], np.arange(3)):
        figure, ax = plt.subplots()
        display = EvidenceDisplay(
            searched([{"k": value}], [-4.0]).cv_results_, param="k"
        )
        assert display.plot(ax=ax).ax_ is ax and display.figure_ is figure
        figure.draw_without_rendering()
        assert curves(ax)["ELBO"][1].tolist() == [-4.0]


def test_unfitted_searches_and_missing_matplotlib(monkeypatch):
    with pytest.raises(NotFittedError):
        EvidenceDisplay.from_estimator(EvidenceSearch(Logistic(), {}))
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        EvidenceDisplay.from_estimator(searched(NUMBERS, [1, 2, 3]))
