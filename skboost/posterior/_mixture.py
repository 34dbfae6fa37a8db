"""The name under which pickles of skboost 0.1.0 look for mixtures: they are refused."""

from skboost._pickles import Refused as Mixture  # noqa: F401
