"""What the core does not have, and the extra that brings it: kinds, schemes, packs, libraries.

The core imports none of these distributions. A name that nothing installed answers to is looked up
here, so that the message ends with the one command that brings it. A test holds the table against
the distributions themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

from statediff.errors import UsageError

EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "chat": ("synapse", "chat"),
    "cloud": ("aws", "cloud"),
    "erp": ("tryton", "erp"),
    "gate": ("gate", "hold", "approve", "undo"),
    "lab": ("lab",),
    "git": ("git", "git-checkout", "git-http", "git-tests", "repo"),
    "mail": ("smtp", "mail", "mailbox", "calendars"),
    "mariadb": ("mariadb", "mysql"),
    "office": ("imap", "radicale", "office"),
    "payments": ("payments",),
    "postgres": ("postgres", "postgresql"),
    "trackers": ("roundup", "roundup-api", "redmine", "redmine-api", "helpdesk"),
}
"""Extra → the kinds, schemes and packs that it brings."""


def brought(name: str) -> str:
    """The end of a message about a name that is not known: the command, or nothing."""
    for extra, names in EXTRAS.items():
        if name in names:
            return f"; {name} comes with `pip install statediff[{extra}]`"
    return ""


def require_extra(extra: str, package: str, wanted: str) -> None:
    """The package is installed; else `UsageError` says what brings it."""
    if find_spec(package) is None:
        raise UsageError(f"{wanted} needs {package}; get it with `pip install statediff[{extra}]`")
