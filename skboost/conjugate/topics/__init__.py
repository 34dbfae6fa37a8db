"""The topic model: words of topics, topics of documents."""

from skboost.conjugate.topics._proportions import LocalSettings, WordTable, local_step
