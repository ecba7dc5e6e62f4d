"""A small place; see `office`."""

from tests.reads.office import corpus, office

__all__ = ["corpus", "office"]
