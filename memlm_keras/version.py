"""The version of this package."""

__version__ = "1.1.0"
