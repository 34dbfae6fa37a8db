"""What a posterior of factors says of the entries of a matrix."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from skboost.conjugate import (
    MatrixFactorizationModel,
    predicted_entries,
    predicted_rows,
)


class Piece(NamedTuple):
    """One component of a posterior; rows and columns are `Moments` of the factors."""

    weight: float
    rows: object
    columns: object
    # Expected variance of the noise.
    noise: float

    def attributes(self, rank):
        """Fitted attributes: means of factors and of biases."""
        return {
            "components_": self.columns.mean[:, :rank].T,
            "row_factors_": self.rows.mean[:, :rank],
            "row_biases_": self.rows.mean[:, rank:].sum(axis=1),
            "column_biases_": self.columns.mean[:, rank:].sum(axis=1),
        }


@dataclass(frozen=True)
class MatrixPredictive:
    """Entries under a mixture of distributions of the factors, about a global bias."""

    model: MatrixFactorizationModel
    # Natural parameters, and weights.
    components: tuple
    weights: tuple
    bias: float

    @classmethod
    def single(cls, model, natural, bias):
        """Of one distribution."""
        return cls(model, (natural,), (1.0,), bias)

    @classmethod
    def of(cls, posterior, bias):
        """Of a `MatrixFactorizationPosterior`."""
        return cls(posterior.model, posterior.components, posterior.weights, bias)

    @property
    def natural(self):
        """Natural parameters of the only distribution."""
        (natural,) = self.components
        return natural

    def pieces(self, entries=None):
        """One for each component, of the rows of the fit or of others, folded in."""
        shifted = None if entries is None else about(entries, self.bias)
        both = zip(self.components, self.weights, strict=True)
        return [self._piece(natural, shifted, weight) for natural, weight in both]

    def _piece(self, natural, entries, weight):
        model = self.model
        if entries is None:
            rows = model.rows.moments(natural["rows"])
        else:
            rows = model.folded_in(natural, entries)
        columns = model.columns.moments(natural["columns"])
        noise = float(model.noise.variance(natural))
        return Piece(float(weight), rows, columns, noise)

    def heaviest(self, entries=None):
        """The piece of the largest weight."""
        return max(self.pieces(entries), key=lambda piece: piece.weight)

    def whole_rows(self, entries, return_std):
        """All entries of rows of the fit (None) or of others, with their spread."""
        pieces = self.pieces(entries)
        parts = [predicted_rows(piece.rows, piece.columns) for piece in pieces]
        return self._combined(pieces, parts, return_std)

    def entries(self, rows, columns, return_std, entries=None):
        """Entries at positions, in rows of the fit (None) or in others, folded in."""
        pieces = self.pieces(entries)
        pairs = _pairs(pieces, rows, columns)
        parts = [predicted_entries(p.rows, p.columns, pairs) for p in pieces]
        return self._combined(pieces, parts, return_std)

    def _combined(self, pieces, parts, return_std):
        """Mean and standard deviation of a mixture of predictions."""
        mean = sum(p.weight * own for p, (own, _) in zip(pieces, parts, strict=True))
        shifted = mean + mean.dtype.type(self.bias)
        if not return_std:
            return shifted
        variance = sum(
            p.weight * (own_variance + p.noise + (own - mean) ** 2)
            for p, (own, own_variance) in zip(pieces, parts, strict=True)
        )
        return shifted, np.sqrt(variance)

    def log_density(self, rows, columns, values, entries=None):
        """Log predictive density of values, each entry taken for normal; nats."""
        pieces, values = self.pieces(entries), np.asarray(values)
        pairs = _pairs(pieces, rows, columns)
        if values.shape != pairs[0].shape:
            raise ValueError(
                f"values must have shape {pairs[0].shape}, as rows and columns; got "
                f"{values.shape}."
            )
        logs, values = [], values - self.bias
        for weight, rows, columns, noise in pieces:
            mean, variance = predicted_entries(rows, columns, pairs)
            variance = variance + noise
            squares = (values - mean) ** 2 / variance
            log_density = -0.5 * (np.log(2.0 * np.pi * variance) + squares)
            logs.append(np.log(weight) + log_density)
        return logsumexp(logs, axis=0)


def about(entries, bias):
    """Entries about a global bias."""
    values = entries.values
    return entries.with_values(values - values.dtype.type(bias))


def _positions(name, index, n):
    index = np.asarray(index)
    if not (np.issubdtype(index.dtype, np.integer) or index.size == 0):
        raise ValueError(f"{name} must be integers; got dtype {index.dtype}.")
    if index.size and not (0 <= index.min() and index.max() < n):
        raise ValueError(
            f"{name} must be from 0 to {n - 1}; got {index.min()} to {index.max()}."
        )
    if index.ndim > 1:
        raise ValueError(
            f"{name} must be one position or a list of them; got shape {index.shape}. "
            "For a table of pairs pass rows.ravel() and columns.ravel()."
        )
    return index.astype(int).reshape(-1)


def _pairs(pieces, rows, columns):
    """Checked positions of entries, rows and columns."""
    n_rows, n_columns = (len(s.mean) for s in (pieces[0].rows, pieces[0].columns))
    pairs = (
        _positions("rows", rows, n_rows),
        _positions("columns", columns, n_columns),
    )
    if pairs[0].shape != pairs[1].shape:
        raise ValueError(
            "rows and columns must have one position each for every entry; got "
            f"{pairs[0].size} and {pairs[1].size}."
        )
    return pairs
