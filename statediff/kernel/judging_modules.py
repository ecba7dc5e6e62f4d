"""A digest of the modules that a judgement goes through.

The kernel's number says when a judgement could change, and is raised by hand; the digest says
whether the modules are the very same. A replay needs the number, and reports the digest.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

JUDGING: Final = (
    "capture/bounds.py",
    "contract",
    "kernel",
    "model",
    "reads",
)
"""Packages and modules of statediff that decide a judgement."""


@cache
def modules_digest() -> str:
    """SHA-256 over the names and bytes of the judging modules, in hex."""
    root = Path(__file__).parents[1]
    files: list[Path] = []
    for name in JUDGING:
        place = root / name
        alone = place if place.suffix else place.with_suffix(".py")
        files += sorted(place.rglob("*.py")) if place.is_dir() else [alone]
    hasher = hashlib.sha256()
    for path in sorted(files, key=lambda path: path.relative_to(root).as_posix()):
        content = path.read_bytes()
        name = path.relative_to(root).as_posix()
        hasher.update(f"{name}\x00{len(content)}\x00".encode() + content)
    return hasher.hexdigest()
