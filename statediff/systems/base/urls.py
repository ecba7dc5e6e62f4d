"""URLs of running systems: who logs in, and what of the URL no message may show.

A password is in the URL or, where that has none, in the environment variable
`STATEDIFF_PASSWORD_NAME` of the source NAME, in upper case, every other character than a letter or
a digit as `_`. Databases with a reader of their own have further places, such as `.pgpass`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

PASSWORD_PREFIX: Final = "STATEDIFF_PASSWORD_"  # noqa: S105 - the name of a variable
_SECRET: Final = re.compile(
    r"pass|secret|token|key|credential|signature|auth|connection|conn_?str|sas", re.IGNORECASE
)
_PART: Final = re.compile(r"[;\s]*([^=;]+)=([^;]+)")
"""A part of a connection string: `AccountKey=…`."""
_SHORTEST: Final = 3


def password_variable(source: str) -> str:
    """The environment variable that holds the password of a source."""
    return PASSWORD_PREFIX + re.sub(r"[^A-Z0-9]", "_", source.upper())


def account_of(source: str, url: str) -> tuple[str | None, str | None]:
    """User and password, decoded; None for what is nowhere."""
    user, colon, password = urlsplit(url).netloc.rpartition("@")[0].partition(":")
    found = unquote(password) if colon else os.environ.get(password_variable(source))
    return unquote(user) or None, found


def url_without_password(url: str) -> str:
    """The URL as messages show it: neither a password nor what follows `?` is in it."""
    scheme, _, rest = url.partition("://")
    place = rest.partition("?")[0]
    account, at, host = place.rpartition("@")
    return f"{scheme}://{account.partition(':')[0]}{at}{host}"


def without_passwords(text: str, urls: Sequence[str]) -> str:
    """The text of a driver, which may quote what it was given."""
    secrets = {
        value
        for name, value in os.environ.items()
        if name.startswith(PASSWORD_PREFIX) and len(value) >= _SHORTEST
    }
    for url in urls:
        account = url.partition("://")[2].partition("?")[0].rpartition("@")[0]
        password = account.partition(":")[2]
        secrets |= {password, unquote(password)}
        query = parse_qsl(url.partition("?")[2])
        query += [part for _, value in query for part in _PART.findall(value)]
        secrets |= {value for name, value in query if _SECRET.search(name)}
    for shown in sorted(secrets - {""}, key=len, reverse=True):
        text = text.replace(shown, "…")
    return text
