"""The name under which pickles of skboost 0.1.0 look for a family: they are refused."""

from skboost._pickles import Refused as ConjugateFamily  # noqa: F401
