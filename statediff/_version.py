"""The version of statediff."""

__version__ = "0.1.0"
