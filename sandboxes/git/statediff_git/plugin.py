"""The plug-in of git repositories: bare, checked out, and served over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from statediff.systems.base.plugin import (
    Refinement,
    StateInput,
    StateReader,
    SystemKind,
    SystemPlugin,
    UrlTools,
    all_named,
    calling,
    named,
)

if TYPE_CHECKING:
    from statediff.capture.source import Source


def _is_bare_url(url: str) -> bool:
    """True if no work tree is there: a checkout is for the tools of files."""
    parts = urlsplit(url)
    if parts.scheme != "file":
        return parts.path.endswith(".git")
    folder = Path(unquote(parts.path))
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir()


def _is_repository(path: Path) -> bool:
    if not path.is_dir():
        return False
    is_bare = all((path / name).exists() for name in ("HEAD", "objects", "refs"))
    return is_bare or (path / ".git").exists()


def _sandbox_kind(path: Path) -> tuple[str, str]:
    return ("git-checkout" if (path / ".git").exists() else "git"), "repository"


def _source(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from statediff_git.source import GitSource

    return GitSource(name, state.path.absolute(), refine)


PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(
        SystemKind(name="git", load=named("statediff_git.sandbox:EmbeddedRepository")),
        SystemKind(name="git-checkout", load=named("statediff_git.sandbox:EmbeddedCheckout")),
        SystemKind(
            name="git-http",
            load=named("statediff_git.server:GitHttpServer"),
            requirement="statediff[docker]",
        ),
    ),
    sources=all_named(
        "statediff_git.source:GitSource", "statediff_git.testruns.source:TestRunSource"
    ),
    tools=UrlTools(
        schemes=frozenset({"file", "http", "https"}),
        make=calling("statediff_git.tools:repository_tools"),
        answers=_is_bare_url,
    ),
    states=StateReader(
        name="repo",
        description="a git repository",
        recognizes=_is_repository,
        source=_source,
        sandbox=_sandbox_kind,
        sandbox_types="git",
    ),
    faults=named("statediff_git.faults:FAULTS"),
    wire=named("statediff_git.wire:WIRE"),
)
