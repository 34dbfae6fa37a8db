"""The name under which pickles of skboost 0.1.0 look for it: they are refused."""

from skboost._pickles import Refused as TransformedPosterior  # noqa: F401
