"""Folders of a sandbox, made and removed without following a link that an agent left there."""

from __future__ import annotations

import os
from pathlib import Path


def make_folder(folder: Path) -> None:
    """The folder exists, is a real directory of ours, and nobody else's."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        folder.unlink()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)


def remove(path: Path) -> None:
    """Nothing is at `path` any more; links are removed, never followed."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    path.chmod(0o700)
    for entry in os.scandir(path):
        remove(Path(entry.path))
    path.rmdir()
