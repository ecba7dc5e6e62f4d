"""Paths in messages."""

from __future__ import annotations

from pathlib import Path


def shown(path: Path) -> str:
    """A path as a person would type it: relative to the current directory where it lies in it."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)
