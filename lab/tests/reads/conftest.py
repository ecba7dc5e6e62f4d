"""A small place; see `office`."""

from lab.tests.reads.office import corpus, office

__all__ = ["corpus", "office"]
