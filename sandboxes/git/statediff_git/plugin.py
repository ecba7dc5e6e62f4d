"""The plug-in of git repositories: bare, checked out, and served over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from statediff.systems.base.plugin import (
    Refinement,
    StateInput,
    StateReader,
    SystemKind,
    SystemPlugin,
    UrlTools,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from statediff.capture.source import Source
    from statediff.systems.base.faults import Below
    from statediff.systems.base.protocol import System
    from statediff.systems.base.tool import Tool
    from statediff.systems.base.wire import Wire


def _bare() -> type[System]:
    from statediff_git.sandbox import EmbeddedRepository

    return EmbeddedRepository


def _checkout() -> type[System]:
    from statediff_git.sandbox import EmbeddedCheckout

    return EmbeddedCheckout


def _server() -> type[System]:
    from statediff_git.server import GitHttpServer

    return GitHttpServer


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff_git.tools import repository_tools

    return repository_tools(source, url)


def _is_bare_url(url: str) -> bool:
    """True if no work tree is there: a checkout is for the tools of files."""
    parts = urlsplit(url)
    if parts.scheme != "file":
        return parts.path.endswith(".git")
    folder = Path(unquote(parts.path))
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir()


def _is_repository(path: Path) -> bool:
    is_bare = path.is_dir() and all((path / name).exists() for name in ("HEAD", "objects", "refs"))
    return is_bare or (path / ".git").exists()


def _sandbox_kind(path: Path) -> tuple[str, str]:
    return ("git-checkout" if (path / ".git").exists() else "git"), "repository"


def _source(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from statediff_git.source import GitSource

    return GitSource(name, state.path.absolute(), refine)


def _sources() -> tuple[type, ...]:
    from statediff_git.source import GitSource
    from statediff_git.testruns.source import TestRunSource

    return (GitSource, TestRunSource)


def _faults() -> Mapping[str, Below]:
    from statediff_git.faults import FAULTS

    return FAULTS


def _wire() -> Wire:
    from statediff_git.wire import WIRE

    return WIRE


PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(
        SystemKind(name="git", load=_bare),
        SystemKind(name="git-checkout", load=_checkout),
        SystemKind(name="git-http", load=_server, requirement="statediff[docker]"),
    ),
    sources=_sources,
    tools=UrlTools(schemes=frozenset({"file", "http", "https"}), make=_tools, answers=_is_bare_url),
    states=StateReader(
        name="repo",
        description="a git repository",
        recognizes=_is_repository,
        source=_source,
        sandbox=_sandbox_kind,
        sandbox_types="git",
    ),
    faults=_faults,
    wire=_wire,
)
