"""How the words of a topic go together in documents."""

import numpy as np


def npmi(counts, words):
    """Mean normalised pointwise mutual information of pairs of words.

    Parameters
    ----------
    counts : csr_array of shape (n_documents, n_words)
    words : ndarray of int

    Returns
    -------
    float
        Probabilities are shares of documents. NaN where no pair occurs.
    """
    n_documents = max(counts.shape[0], 1)
    holds = (counts[:, words] > 0).astype(float)
    together = np.asarray((holds.T @ holds).todense()) / n_documents
    alone = np.diagonal(together)
    i, j = np.triu_indices(len(words), 1)
    occur = (alone[i] > 0) & (alone[j] > 0)
    if not occur.any():
        return np.nan
    i, j = i[occur], j[occur]
    joint = together[i, j]
    # Pairs that never meet are -1, those in every document together 1.
    found = np.where(joint > 0, 1.0, -1.0)
    some = (joint > 0) & (joint < 1)
    log_joint = np.log(joint[some])
    gain = log_joint - np.log(alone[i[some]]) - np.log(alone[j[some]])
    found[some] = -gain / log_joint
    return float(found.mean())
