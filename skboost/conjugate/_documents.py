"""Documents as bags of words: sparse rows of counts or other non-negative weights."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from skboost._parallel import SharedWithWorkers

# Documents of one chunk of work: enough to put many of like length together.
_CHUNK = 1024


@dataclass(frozen=True)
class Documents(SharedWithWorkers):
    """Rows of a matrix of counts.

    Parameters
    ----------
    counts : csr_array of shape (n_documents, n_words)
        Of positive entries only.
    """

    counts: sparse.csr_array

    @classmethod
    def of(cls, X):
        """Documents of a dense or sparse matrix without negative entries."""
        # A copy: zeros and duplicates are not to leave the user's own arrays.
        counts = sparse.csr_array(X, dtype=float, copy=True)
        counts.sum_duplicates()
        counts.eliminate_zeros()
        return cls(counts)

    def __len__(self):
        return self.counts.shape[0]

    def __getitem__(self, index):
        """Some of the documents, by a slice or an array of positions."""
        return Documents(self.counts[index])

    @property
    def n_words(self):
        """Size of the vocabulary."""
        return self.counts.shape[1]

    @property
    def lengths(self):
        """Different words of each document, shape (n_documents,)."""
        return np.diff(self.counts.indptr)

    @property
    def totals(self):
        """Tokens of each document, shape (n_documents,)."""
        return np.asarray(self.counts.sum(axis=1)).reshape(-1)

    def chunks(self):
        """Slices of documents that do not depend on the number of workers."""
        n = len(self)
        return [slice(a, min(a + _CHUNK, n)) for a in range(0, n, _CHUNK)] or [
            slice(0, 0)
        ]
