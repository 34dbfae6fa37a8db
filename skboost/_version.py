"""The version, a literal that the build reads without importing the package."""

__version__ = "0.3.0.dev0"
