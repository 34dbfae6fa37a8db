"""How a mixture reads rows: in memory as they are, else by sums and a sample."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from sklearn.utils import check_array

from skboost._columns import gaps_named, validate_data
from skboost._random import generator
from skboost._row_blocks import RowReader, Table, checked_weights
from skboost._rows import canonical_rows
from skboost.conjugate import Expectation
from skboost.fitting import row_weights, warn_of_weights, warn_where_called
from skboost.mixture._priors import ColumnSums, covariance_of, moments, scatter
from skboost.svi import NaturalGradient

# Rows from which runs start, where there are more: k-means on these takes seconds,
# and a cluster of one row in a thousand still has 65 of them.
SAMPLE = 1 << 16
# Names of a cluster's statistics, in the order of the model.
_STATISTICS = ("count", "first", "second", "seen")


def read_rows(estimator, X, reset=False, least=1):
    """Rows as an array in which NaN is missing."""
    # Covariances that take no missing values refuse them in the words of the model.
    return validate_data(
        estimator, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan",
        ensure_min_samples=least,
    )  # fmt: skip


def weighted_rows(estimator, X, sample_weight, reset=False, least=1):
    """Rows and their weights."""
    X = read_rows(estimator, X, reset, least)
    return X, row_weights(X, sample_weight)


def canonical(X, weight):
    """Equal rows merged, rows of no weight dropped."""
    X, _, weight = canonical_rows(X, np.zeros(len(X)), weight)
    return X, weight


def warn_of_few_rows(n_components, n_rows):
    """Say that there are more clusters than rows."""
    if n_components > n_rows:
        warn_where_called(
            f"n_components={n_components} is above the number of distinct rows, "
            f"{n_rows}: most clusters stay empty. Lower n_components.",
            UserWarning,
        )


def warn_of_first_rows(n_components, n_rows):
    """Say that a stream begins with fewer rows than there are clusters."""
    if n_rows < n_components:
        warn_where_called(
            "The stream begins with fewer distinct rows than clusters "
            f"({n_rows} for n_components={n_components}): they set its priors and its "
            "first clusters. Pass more rows at first.",
            UserWarning,
        )


def warned_of_far_rows(estimator, X):
    """Whether most rows are less dense, by ten nats, than any of 100 draws, and said
    so."""
    predictive = estimator._predictive
    some = X[np.linspace(0, len(X) - 1, min(len(X), 64)).astype(int)]
    drawn, _ = predictive.draw_rows(100, 0)
    least = predictive.log_density(drawn).min() - 10.0
    far = float((predictive.log_density(some) < least).mean())
    if far <= 0.5:
        return False
    warn_where_called(
        f"{far:.0%} of these rows lie far outside every cluster of the rows before, as "
        "where a stream comes sorted. Clusters that were found move to them slowly or "
        "not at all: shuffle the rows, or begin with rows of all kinds.",
        UserWarning,
    )
    return True


class Held:
    """What runs need of rows in memory in canonical form: these themselves."""

    def moments(self, rows):
        """Mean and covariance from which priors come that are left open."""
        return moments(rows.X, rows.weight)

    def start(self, rows):
        """Rows, and their weights, from which runs start."""
        return rows.X, rows.weight

    def engine(self, model, rows, at_hand, estimator):
        """What makes the engine of a run; `at_hand` are the rows of `start`."""
        return partial(NaturalGradient, model, at_hand, weight=rows.weight)


@dataclass
class Sample:
    """Sums over rows that are not held in memory, and a sample of them."""

    n_rows: int
    observed: ColumnSums
    # A uniform number, a weight and values (n_sample, 2 + n_features); of more rows
    # than a sample has, those of the smallest numbers are kept.
    drawn: np.ndarray

    def __post_init__(self):
        if len(self.drawn) > SAMPLE:
            kept = np.argpartition(self.drawn[:, 0], SAMPLE)[:SAMPLE]
            self.drawn = self.drawn[np.sort(kept)]

    def with_others(self, other):
        """Of the rows of both."""
        return Sample(
            self.n_rows + other.n_rows,
            self.observed.with_others(other.observed),
            np.concatenate([self.drawn, other.drawn]),
        )

    def moments(self, rows):
        """Mean and covariance, by one more pass."""
        mean = self.observed.mean
        (sums,) = rows.sum(partial(_scatter, mean), 2 * len(mean), len(mean) ** 2)
        return mean, covariance_of(self.observed, sums)

    def start(self, rows):
        """The sample, which has the weight of all rows."""
        weight = self.drawn[:, 1]
        if self.n_rows > SAMPLE:
            weight = weight * (self.observed.total / weight.sum())
        return canonical(self.drawn[:, 2:], weight)

    def engine(self, model, rows, at_hand, estimator):
        """What makes the engine of a run; batches need rows with positions."""
        size, noise = estimator.batch_size, estimator.effective_batch_size
        if size is not None and not isinstance(rows, Table):
            raise ValueError(
                "batch_size needs rows that positions select from, such as those of an "
                f"array or numpy.memmap; got batch_size={size} for rows in blocks. "
                "Leave it None, or pass one block after another to partial_fit."
            )
        if noise is not None and (size is None or size >= len(rows)):
            raise ValueError(
                "effective_batch_size needs a batch_size below the number of rows "
                f"where rows are not held in memory; got batch_size={size} for "
                f"n_rows={len(rows)}."
            )
        return partial(FarGradient, model, rows)


@dataclass
class MixtureRows(RowReader):
    """Rows without responses, in which NaN is missing; the seed is of the sample."""

    seed: int = 0

    def held(self, estimator, X, y=None, sample_weight=None, offset=None):
        """A `Table` of rows in memory, in canonical form."""
        X, weight = canonical(*weighted_rows(estimator, X, sample_weight, reset=True))
        rows = Table(X, None, weight)
        rows.summary = Held()
        return rows

    def look(self, index, X, y=None, weight=None, offset=None):
        """A checked block of rows as a `Sample`, which does not depend on who looks."""
        with gaps_named(X, f" of block {index}"):
            X = check_array(
                X, dtype=np.float64, ensure_all_finite="allow-nan", input_name="X"
            )
        weight = np.broadcast_to(checked_weights(weight, len(X)), len(X))
        # Streams 0 and 1 of the seed are those of starts and steps.
        keys = generator(self.seed, 2, index).random(len(X))
        drawn = np.column_stack([keys, weight, X])
        return Sample(len(X), ColumnSums.of(X, weight), drawn)

    def together(self, parts):
        """The `Sample` of all blocks; at least one row has a weight."""
        total = None
        for part in parts:
            total = part if total is None else total.with_others(part)
        if total is None or not total.observed.total > 0:
            raise ValueError("The rows must have at least one of positive weight.")
        warn_of_weights(total.observed.total, total.n_rows)
        return total


def _scatter(mean, block):
    weight = np.broadcast_to(block.weight, len(block))
    return (scatter(block.X, weight, mean),)


# --- the engine


@dataclass(frozen=True)
class FarGradient(NaturalGradient):
    """Natural gradients on a `RowSource`, in batches where positions select rows."""

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
        weight = np.broadcast_to(self.rows.weight, len(self.rows))[batch]
        return self.model.rows(np.asarray(self.rows.X[batch], float)), weight

    def _of_all(self, natural):
        width = self.model.n_components + 2 * self.model.dim
        entries = self.model.n_components * self.model.dim**2
        part = partial(_expected, self.model, natural)
        evidence, *sums = self.rows.sum(part, width, entries)
        statistics = dict(zip(_STATISTICS, sums, strict=False))
        return Expectation((statistics,), float(evidence))


def _expected(model, natural, block):
    """Evidence and expected statistics of a block."""
    weight = np.broadcast_to(block.weight, len(block))
    expected = model.expect(natural, model.rows(block.X), weight)
    (statistics,) = expected.statistics
    return expected.evidence, *(
        statistics[name] for name in _STATISTICS if name in statistics
    )
