"""Everything in moto's memory, one line each: what a reset is proven by. Uses nothing of capture.

The lines are made without knowledge of what they mean: every attribute of every object that the
services' backends lead to, whatever types capture knows. So a setting that no type shows is drift
too. Of contents and long texts, and of all secrets, a line has the digest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from tempfile import SpooledTemporaryFile
from typing import Any, Final

_LONG: Final = 200
_SECRET: Final = ("secret_access_key", "session_token", "password", "private_key")
_SKIPPED: Final = frozenset({"lock", "_messages_lock", "account_summary", "backend"})
_PLAIN: Final = (str, int, float, bytes)


def lines_of(roots: Mapping[str, Any]) -> dict[str, str]:
    """Path → what is there, e.g. `s3.buckets.site.versioning_status` → `Enabled`."""
    found: dict[str, str] = {}
    for name, root in roots.items():
        _add(found, name, root, {})
    return found


def digest_of(lines: Mapping[str, str]) -> str:
    """One digest for all of them."""
    hasher = hashlib.sha256()
    for path, value in sorted(lines.items()):
        hasher.update(f"{len(path)}:{path}={len(value)}:{value};".encode(errors="surrogatepass"))
    return hasher.hexdigest()


def sealed(value: str | bytes) -> str:
    """The form in which a line shows a long text, a content or a secret."""
    stored = value.encode(errors="surrogatepass") if isinstance(value, str) else value
    return f"{len(stored)} bytes, sha256 {hashlib.sha256(stored).hexdigest()}"


def _add(found: dict[str, str], path: str, value: Any, seen: dict[int, str]) -> None:
    if value is None or isinstance(value, _PLAIN):
        found[path] = _shown(path, value)
    elif isinstance(value, datetime):
        found[path] = value.isoformat()
    elif isinstance(value, Enum | re.Pattern | type) or callable(value):
        found[path] = str(value)
    elif id(value) in seen:
        found[path] = f"as {seen[id(value)]}"
    elif isinstance(value, SpooledTemporaryFile):
        value.seek(0)
        found[path] = sealed(value.read())
    else:
        seen[id(value)] = path
        members = _members(value)
        if not members:
            found[path] = "empty"
        for name, each in members:
            _add(found, f"{path}.{name}", each, seen)


def _shown(path: str, value: Any) -> str:
    if isinstance(value, str):
        is_secret = path.rpartition(".")[2].endswith(_SECRET)
        return sealed(value) if is_secret or len(value) > _LONG else value
    return sealed(value) if isinstance(value, bytes) else repr(value)


def _members(value: Any) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        # Not `items`: moto's store of objects shows only the latest version of each by it.
        found = [(str(name), each) for name, each in sorted(dict.items(value), key=_name)]
    elif isinstance(value, Mapping):
        found = [(str(name), each) for name, each in sorted(value.items(), key=_name)]
    elif isinstance(value, list | tuple):
        found = [(str(number), each) for number, each in enumerate(value)]
    elif isinstance(value, set | frozenset):
        found = [(str(number), each) for number, each in enumerate(sorted(value, key=_order))]
    own = getattr(value, "__dict__", None)
    if own:
        found += [(name, each) for name, each in sorted(own.items()) if name not in _SKIPPED]
    return found


def _name(entry: tuple[Any, Any]) -> str:
    return str(entry[0])


def _order(value: Any) -> str:
    return str(getattr(value, "id", value))
