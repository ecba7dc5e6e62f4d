"""Faults of a repository below its references: files that git acts on later."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from statediff.systems.base.faults import Below, Place


def _folder(place: Place) -> Path:
    """The folder of the source."""
    return place.path


def _served(place: Place) -> Path:
    """The repository behind a server."""
    return place.home.parent / f"{place.source}.git"


def _git_file(
    name: str, content: str, mode: int = 0o644, folder_of: Callable[[Place], Path] = _folder
) -> Callable[[Place], bool]:
    """More text at the end of a file of a repository's administration."""

    def apply(place: Place) -> bool:
        folder = folder_of(place)
        top = folder if (folder / "HEAD").exists() else folder / ".git"
        if not (top / "HEAD").exists():
            return False
        file = top / name
        file.parent.mkdir(exist_ok=True)
        file.write_text((file.read_text() if file.exists() else "") + content)
        file.chmod(mode)
        return True

    return apply


FAULTS: Final[Mapping[str, Below]] = {
    "git:hook": Below("file://", _git_file("hooks/post-checkout", "#!/bin/sh\n", 0o755), ()),
    "git:setting": Below("file://", _git_file("config", "[core]\n\tfsmonitor = x\n"), ()),
    "git:alternate": Below("file://", _git_file("objects/info/alternates", "/srv/x\n"), ()),
    "git-http:hook": Below(
        "http://", _git_file("hooks/post-update", "#!/bin/sh\n", 0o755, _served), ()
    ),
    "git-http:setting": Below(
        "http://", _git_file("config", "[uploadpack]\n\thideRefs = refs\n", folder_of=_served), ()
    ),
    "git-http:alternate": Below(
        "http://", _git_file("objects/info/alternates", "/srv/x\n", folder_of=_served), ()
    ),
    "git-http:replaced": Below(
        "http://", _git_file("info/grafts", f"{'0' * 40}\n", folder_of=_served), ()
    ),
}
