"""URLs of services over HTTP: `roundup+http://…`, which may also be written `http+roundup`."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit, urlunsplit

_BY: Final = ("http", "https")


def schemes_of(service: str) -> frozenset[str]:
    """The schemes of a service's URLs."""
    return frozenset(each for by in _BY for each in (f"{service}+{by}", f"{by}+{service}"))


def http_url(url: str) -> str:
    """The URL by which HTTP reaches the service, without an account and what follows `?`."""
    parts = urlsplit(url)
    [by] = {"http", "https"} & set(parts.scheme.split("+"))
    return urlunsplit((by, parts.netloc.rpartition("@")[2], parts.path, "", ""))
