"""Everything in moto's memory, one line each: what a reset is proven by. Uses nothing of capture.

The lines are made without knowledge of what they mean: every attribute of every object that the
services' backends lead to, whatever types capture knows. So a setting that no type shows is drift
too. Of contents and long texts, and of all secrets, a line has the digest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import Enum
from tempfile import SpooledTemporaryFile
from typing import Any, Final

_LONG: Final = 200
_SECRET: Final = ("secret_access_key", "session_token", "password", "private_key")
_SKIPPED: Final = frozenset({"lock", "_messages_lock", "account_summary", "backend"})
_PLAIN: Final = (str, int, float, bool, bytes, type(None))


def lines_of(roots: Mapping[str, Any]) -> dict[str, str]:
    """Path → what is there, e.g. `s3.buckets.site.versioning_status` → `Enabled`."""
    found: dict[str, str] = {}
    for name, root in roots.items():
        found.update(_lines(name, root, {}))
    return found


def digest_of(lines: Mapping[str, str]) -> str:
    """One digest for all of them."""
    hasher = hashlib.sha256()
    for path, value in sorted(lines.items()):
        hasher.update(f"{len(path)}:{path}={len(value)}:{value};".encode(errors="surrogatepass"))
    return hasher.hexdigest()


def sealed(value: str | bytes) -> str:
    """What a line shows of a long text, a content or a secret."""
    stored = value.encode(errors="surrogatepass") if isinstance(value, str) else value
    return f"{len(stored)} bytes, sha256 {hashlib.sha256(stored).hexdigest()}"


def _lines(path: str, value: Any, above: dict[int, str]) -> Iterator[tuple[str, str]]:
    if isinstance(value, _PLAIN):
        is_secret = path.rpartition(".")[2].endswith(_SECRET)
        text = value if isinstance(value, str | bytes) else repr(value)
        is_long = isinstance(text, bytes) or len(text) > _LONG
        yield path, sealed(text) if value is not None and (is_secret or is_long) else str(text)
        return
    if isinstance(value, datetime):
        yield path, value.isoformat()
        return
    if isinstance(value, Enum | re.Pattern | type) or callable(value):
        yield path, str(value)
        return
    if id(value) in above:
        yield path, f"as {above[id(value)]}"
        return
    above[id(value)] = path
    if isinstance(value, SpooledTemporaryFile):
        value.seek(0)
        yield path, sealed(value.read())
        return
    members = list(_members(value))
    if not members:
        yield path, "empty"
    for name, each in members:
        yield from _lines(f"{path}.{name}", each, above)


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name in sorted(dict.keys(value) if isinstance(value, dict) else value, key=str):
            yield (
                str(name),
                dict.__getitem__(value, name) if isinstance(value, dict) else value[name],
            )
    elif isinstance(value, list | tuple):
        yield from ((str(number), each) for number, each in enumerate(value))
    elif isinstance(value, set | frozenset):
        for number, each in enumerate(sorted(value, key=_order)):
            yield str(number), each
    if hasattr(value, "__dict__"):
        for name, each in sorted(vars(value).items()):
            if name not in _SKIPPED:
                yield name, each


def _order(value: Any) -> str:
    return str(getattr(value, "id", value))
