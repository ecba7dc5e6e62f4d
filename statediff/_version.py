"""The version of statediff."""

__version__ = "1.0.0rc1"
