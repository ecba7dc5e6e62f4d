"""Requests of CalDAV and CardDAV: collections below a URL, their objects and ETags.

Only PROPFIND and REPORT are sent. A password goes to another machine by HTTPS only, and no redirect
is followed, so that it goes nowhere else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree as ET

import httpx

from statediff.capture.source import SourceUnavailable
from statediff.errors import UsageError
from statediff.model.values import printable
from statediff.systems.base.urls import account_of, without_passwords

SECONDS: Final = 60.0
MAX_REPLY_BYTES: Final = 256 * 1024 * 1024
MAX_CAUSE: Final = 200
_HERE: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_DAV: Final = "{DAV:}"
_CAL: Final = "{urn:ietf:params:xml:ns:caldav}"
_CARD: Final = "{urn:ietf:params:xml:ns:carddav}"
_CALENDARS: Final = (
    '<propfind xmlns="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav" '
    'xmlns:A="urn:ietf:params:xml:ns:carddav"><prop><resourcetype/><displayname/>'
    "<C:calendar-description/><A:addressbook-description/></prop></propfind>"
)
_OBJECTS: Final = (
    '<C:calendar-query xmlns="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav"><prop><getetag/>'
    '<C:calendar-data/></prop><C:filter><C:comp-filter name="VCALENDAR"/></C:filter>'
    "</C:calendar-query>"
)
_CARDS: Final = (
    '<A:addressbook-query xmlns="DAV:" xmlns:A="urn:ietf:params:xml:ns:carddav"><prop><getetag/>'
    "<A:address-data/></prop></A:addressbook-query>"
)
_ETAGS: Final = '<propfind xmlns="DAV:"><prop><getetag/><resourcetype/></prop></propfind>'


@dataclass(frozen=True, order=True)
class DavCalendar:
    """A calendar or address book by its path on the server, with what its owner calls it."""

    path: str
    name: str | None
    description: str | None
    is_address_book: bool = False


class DavSession:
    """Answers of a CalDAV server, parsed. Raises `SourceUnavailable`."""

    def __init__(self, client: httpx.Client, root: str) -> None:
        self._client = client
        self._root = root

    def calendars(self) -> list[DavCalendar]:
        """The calendar or address book at the URL, or those right below it, by path."""
        found = []
        for path, props in self._answers("PROPFIND", self._root, _CALENDARS):
            kind = props.find(f"{_DAV}resourcetype")
            if kind is None:
                continue
            name = props.findtext(f"{_DAV}displayname")
            if kind.find(f"{_CAL}calendar") is not None:
                found.append(DavCalendar(path, name, props.findtext(f"{_CAL}calendar-description")))
            elif kind.find(f"{_CARD}addressbook") is not None:
                about = props.findtext(f"{_CARD}addressbook-description")
                found.append(DavCalendar(path, name, about, True))
        return sorted(found, key=lambda each: each.path)

    def objects(self, calendar: DavCalendar) -> dict[str, tuple[str, str]]:
        """Path → ETag and text (iCalendar or vCard) of each object."""
        asked, field = _OBJECTS, f"{_CAL}calendar-data"
        if calendar.is_address_book:
            asked, field = _CARDS, f"{_CARD}address-data"
        return {
            path: (props.findtext(f"{_DAV}getetag") or "", text)
            for path, props in self._answers("REPORT", calendar.path, asked)
            if (text := props.findtext(field)) is not None
        }

    def etags(self, calendar: DavCalendar) -> dict[str, str]:
        """Path → ETag of each object."""
        return {
            path: props.findtext(f"{_DAV}getetag") or ""
            for path, props in self._answers("PROPFIND", calendar.path, _ETAGS)
            if path.rstrip("/") != calendar.path.rstrip("/")
        }

    def _answers(self, method: str, path: str, body: str) -> Iterator[tuple[str, ET.Element]]:
        """The path and the properties of each resource that the server shows."""
        for response in self._asked(method, path, body).iter(f"{_DAV}response"):
            href = response.findtext(f"{_DAV}href")
            for status in response.iter(f"{_DAV}propstat"):
                props = status.find(f"{_DAV}prop")
                if (
                    href is not None
                    and props is not None
                    and " 200 " in f"{status.findtext(f'{_DAV}status')} "
                ):
                    yield unquote(urlsplit(href).path), props

    def _asked(self, method: str, path: str, body: str) -> ET.Element:
        headers = {"Depth": "1", "Content-Type": "application/xml; charset=utf-8"}
        content = b""
        with self._client.stream(method, path, content=body, headers=headers) as reply:
            if reply.status_code != httpx.codes.MULTI_STATUS:
                raise SourceUnavailable(_refused(method, path, reply.status_code))
            for block in reply.iter_bytes():
                content += block
                if len(content) > MAX_REPLY_BYTES:
                    raise SourceUnavailable(f"an answer has more than {MAX_REPLY_BYTES} bytes")
        return ET.fromstring(content)  # noqa: S314 - expat bounds what entities grow to


def _refused(method: str, path: str, status: int) -> str:
    why = {
        401: "user or password is wrong",
        403: "this account may not see it",
        404: "there is nothing at this path",
    }.get(status, "expected the answer of a CalDAV server")
    return f"{method} {printable(path)} was answered with {status}: {why}"


@contextlib.contextmanager
def dav_session(source: str, url: str) -> Iterator[DavSession]:
    """A session at the URL. Raises `SourceUnavailable`, and `UsageError` for a wrong URL."""
    parts = urlsplit(url)
    if parts.hostname is None or (parts.scheme == "caldav" and parts.hostname not in _HERE):
        raise UsageError(
            f"the URL of {source}: expected caldavs://USER@HOST/PATH/; caldav://, without TLS, is "
            "for this machine"
        )
    user, password = account_of(source, url)
    scheme = "https" if parts.scheme == "caldavs" else "http"
    place = f"{scheme}://{parts.netloc.rpartition('@')[2]}"
    auth = None if user is None else httpx.BasicAuth(user, password or "")
    try:
        with httpx.Client(
            base_url=place, auth=auth, timeout=SECONDS, follow_redirects=False, trust_env=False
        ) as client:
            yield DavSession(client, parts.path or "/")
    except (httpx.HTTPError, ET.ParseError) as error:
        said = str(error) or type(error).__name__
        raise SourceUnavailable(printable(without_passwords(said, [url])[:MAX_CAUSE])) from error
