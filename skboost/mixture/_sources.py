"""Rows of a mixture that are not held in memory: one look, their moments, a sample."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from skboost._random import generator
from skboost._row_blocks import (
    BlockTables,
    Table,
    as_blocks,
    checked_weights,
    is_mapped,
)
from skboost.conjugate import Expectation, GaussianMixtureModel
from skboost.mixture._priors import Observed, covariance_of, scatter, settings_of
from skboost.mixture._stream import canonical
from skboost.svi import NaturalGradient

# Rows from which runs start, where there are more: k-means on these takes seconds,
# and a cluster of one row in a thousand still has 65 of them.
SAMPLE = 1 << 16
_SAMPLE_STREAM = 2


@dataclass
class Found:
    """What one pass over rows has found.

    Attributes
    ----------
    n_rows : int
    observed : Observed
    keys : ndarray of shape (n_sample,)
        Uniform numbers, one of every row; the rows of the smallest are the sample.
    values : ndarray of shape (n_sample, n_features)
    weight : ndarray of shape (n_sample,)
    """

    n_rows: int
    observed: Observed
    keys: np.ndarray
    values: np.ndarray
    weight: np.ndarray

    @property
    def scale(self):
        """Weight of all rows over that of the sample."""
        if self.n_rows <= SAMPLE:
            return 1.0
        return self.observed.total / self.weight.sum()


def looked_at(seed, index, X, weight=None):
    """Check a block of rows, and say what is in it.

    Parameters
    ----------
    seed : int
    index : int
        Of the block: its rows in the sample do not depend on who looks at it.
    X, weight
        Of the block, as they came.

    Returns
    -------
    Found
    """
    X = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan", input_name="X")
    weight = checked_weights(weight, len(X))
    weight = np.broadcast_to(weight, len(X))
    keys = generator(seed, _SAMPLE_STREAM, index).random(len(X))
    found = Found(len(X), Observed.of(X, weight), keys, X, weight)
    return _sampled(found)


def together(parts):
    """What was found in all blocks; at least one row has a weight.

    Parameters
    ----------
    parts : iterable of Found
    """
    total = None
    for part in parts:
        if total is None:
            total = part
            continue
        total = Found(
            total.n_rows + part.n_rows,
            total.observed.with_others(part.observed),
            np.concatenate([total.keys, part.keys]),
            np.concatenate([total.values, part.values]),
            np.concatenate([total.weight, part.weight]),
        )
        total = _sampled(total)
    if total is None or not total.observed.total > 0:
        raise ValueError("The rows must have at least one of positive weight.")
    return total


def _sampled(found):
    if len(found.keys) <= SAMPLE:
        return found
    kept = np.sort(np.argpartition(found.keys, SAMPLE)[:SAMPLE])
    return replace(
        found,
        keys=found.keys[kept],
        values=found.values[kept],
        weight=found.weight[kept],
    )


def far_rows(estimator, X, sample_weight, seed):
    """A `RowSource` of rows that are not held in memory; None for all others."""
    blocks = as_blocks(X, sample_weight=sample_weight)
    if blocks is None:
        return None
    parts = _looks(estimator, blocks, seed)
    found = together(parts)
    if is_mapped(X):
        weight = 1.0 if sample_weight is None else np.asarray(sample_weight, float)
        rows = Table(X, None, weight)
    else:

        def tables():
            for X, _, weight, _ in blocks:
                yield Table(np.asarray(X), None, checked_weights(weight, X.shape[0]))

        rows = BlockTables(tables, found.n_rows, found.values.shape[1])
    rows.summary = found
    return rows


def _looks(estimator, blocks, seed):
    for index, (X, _, weight, _) in enumerate(blocks):
        validate_data(estimator, X, reset=index == 0, skip_check_array=True)
        yield looked_at(seed, index, X, weight)


def far_settings(estimator, rows):
    """`mixture_settings` of a `RowSource`, by one more pass."""
    observed = rows.summary.observed
    mean = observed.mean
    (sums,) = rows.sum(partial(_scatter, mean), 2 * len(mean), len(mean) ** 2)
    return settings_of(estimator, mean, covariance_of(observed, sums))


def _scatter(mean, block):
    weight = np.broadcast_to(block.weight, len(block))
    return (scatter(block.X, weight, mean),)


def check_batches(estimator, rows):
    """Refuse batches of rows that only come in blocks."""
    size, noise = estimator.batch_size, estimator.effective_batch_size
    if size is not None and not isinstance(rows, Table):
        raise ValueError(
            "batch_size needs rows that positions select from, such as those of an "
            f"array or numpy.memmap; got batch_size={size} for rows in blocks. Leave "
            "it None, or pass one block after another to partial_fit."
        )
    if noise is not None and (size is None or size >= len(rows)):
        raise ValueError(
            "effective_batch_size needs a batch_size below the number of rows where "
            f"rows are not held in memory; got batch_size={size} for {len(rows)} rows."
        )


# --- the engine


class Statistics(dict):
    """Sums by name, which can be added up."""

    def __add__(self, other):
        return Statistics({name: value + other[name] for name, value in self.items()})


def _expected(settings, natural, block):
    """Expected statistics of a block; the model is made where the rows are."""
    model = GaussianMixtureModel.make(**settings)
    weight = None if isinstance(block.weight, float) else block.weight
    found = model.expect(natural, model.rows(block.X), weight)
    scale = block.weight if weight is None else 1.0
    statistics = {name: scale * value for name, value in found.statistics[0].items()}
    return scale * found.evidence, Statistics(statistics)


@dataclass(frozen=True)
class FarGradient(NaturalGradient):
    """Natural gradients on a `RowSource`; batches of rows where positions select them.

    Parameters
    ----------
    settings : dict
        Of the model.
    """

    settings: dict | None = None

    @property
    def total_weight(self):
        return self.rows.summary.observed.total

    def elbo(self, state):
        ahead = state.ahead
        ahead = self._of_all(state.natural) if ahead is None else ahead
        return self.model.elbo(state.natural, ahead.evidence)

    def _expect(self, natural, n_done, local=None):
        if self.whole:
            return self._of_all(natural)
        return super()._expect(natural, n_done, local)

    def _rows_at(self, batch):
        weight = self.rows.weight
        weight = None if isinstance(weight, float) else weight[batch]
        return self.model.rows(np.asarray(self.rows.X[batch], float)), weight

    def _of_all(self, natural):
        width = self.model.n_components + 2 * self.model.dim
        entries = self.model.n_components * self.model.dim**2
        part = partial(_expected, self.settings, natural)
        evidence, statistics = self.rows.sum(part, width, entries)
        return Expectation((dict(statistics),), float(evidence))


class FarMixture:
    """Fits of rows that are not held in memory, for estimators with ``_made``."""

    def _far_rows(self, X, sample_weight, seed):
        """A `RowSource` of rows that are not held in memory; None for all others."""
        return far_rows(self, X, sample_weight, seed)

    def _far_engines(self, rows, going_on):
        """One for each run on a `RowSource`; all start from a sample of its rows."""
        check_batches(self, rows)
        found = rows.summary
        values, weight = canonical(found.values, found.weight * found.scale)
        start = partial(self._start, self._model.rows(values), weight)
        make = partial(FarGradient, settings=self._settings)
        return self._made(make, rows, start, going_on)
