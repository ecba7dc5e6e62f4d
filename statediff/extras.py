"""Extras of the core: kinds, schemes, packs and libraries, and the extra that brings each.

The core imports none of these distributions. A name that nothing installed answers to is looked up
here, so that the message ends with the one command that brings it. A test holds the table against
the distributions themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Final

from statediff.errors import UsageError

EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "agents": ("mcp", "mcp-proxy"),
    "chat": ("synapse", "matrix"),
    "cloud": ("aws",),
    "erp": ("tryton",),
    "gate": ("gate", "hold", "approve", "undo"),
    "lab": ("lab", "log", "attach", "expire"),
    "git": ("git", "git-checkout", "git-http", "git-tests"),
    "mail": ("smtp", "mail", "mailbox", "calendars"),
    "mariadb": ("mariadb", "mysql"),
    "office": ("imap", "radicale"),
    "payments": ("payments",),
    "postgres": ("postgres", "postgresql"),
    "trackers": ("roundup", "roundup-api", "redmine", "redmine-api"),
}
"""Extra → the kinds and schemes, or the commands, that it brings."""
PACKS: Final[Mapping[str, str]] = {
    **{name: name for name in ("chat", "cloud", "erp", "office", "payments")},
    "helpdesk": "trackers",
    "repo": "git",
}
"""Pack → the extra that it comes with."""


def requirement_of(name: str) -> str | None:
    """The requirement of `pip install` for this kind, scheme or pack; None where none is known."""
    extra = PACKS.get(name) or next((e for e, names in EXTRAS.items() if name in names), None)
    return None if extra is None else f"statediff[{extra}]"


def brought(name: str) -> str:
    """The end of a message about a name that is not known: the command, or nothing."""
    found = requirement_of(name)
    return "" if found is None else f"; {name} comes with `pip install {found}`"


def extra_module(name: str, extra: str, wanted: str) -> ModuleType:
    """The module of a library; else `UsageError` says what is wanted of it, and what brings it."""
    try:
        return import_module(name)
    except ImportError as error:
        get = f"get it with `pip install statediff[{extra}]`"
        raise UsageError(f"{wanted}; {get}") from error


def require_extra(extra: str, package: str, wanted: str) -> None:
    """The package is installed; else `UsageError` says what brings it."""
    if find_spec(package) is None:
        raise UsageError(f"{wanted} needs {package}; get it with `pip install statediff[{extra}]`")
