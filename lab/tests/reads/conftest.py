"""A small place; see `tests/reads/office.py`."""

from tests.reads.office import corpus, office

__all__ = ["corpus", "office"]
