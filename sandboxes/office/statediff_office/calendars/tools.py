"""Calendars and address books, by the server that the agent was given."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import quote, unquote, urlsplit
from xml.etree import ElementTree as ET

import httpx
from pydantic import Field

from statediff.model.trace import ActionClass
from statediff.systems.base.tool import MAX_SECONDS, MAX_TEXT, Arguments, Tool, ToolError, tool_name

MAX_LISTED: Final = 200
Path = Annotated[str, Field(min_length=1, max_length=400, pattern=r"^/[^\r\n\x00]*$")]
Instant = Annotated[str, Field(pattern=r"^[0-9]{8}T[0-9]{6}Z$")]
_DAV: Final = "{DAV:}"
_CAL: Final = "{urn:ietf:params:xml:ns:caldav}"
_CARD: Final = "{urn:ietf:params:xml:ns:carddav}"
_LISTING: Final = (
    '<propfind xmlns="DAV:"><prop><resourcetype/><displayname/><getetag/></prop></propfind>'
)
Taken = TypeVar("Taken", bound=Arguments)


class Place(Arguments):
    """A folder, calendar, address book or object by its path."""

    path: Path


class Written(Arguments):
    """The whole text of an object."""

    path: Path = Field(description="E.g. /ada/work/lunch.ics, or …/ada.vcf for a contact.")
    text: str = Field(max_length=MAX_TEXT, description="iCalendar or vCard.")
    etag: str | None = Field(
        default=None, max_length=200, description="Of the version it replaces; null for a new one."
    )


class Busy(Arguments):
    """A time range of a calendar, in UTC, e.g. 20260312T080000Z."""

    path: Path
    begin: Instant
    end: Instant


def calendar_tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    """The tools of a calendar program: list, read, ask for free-busy times, write, delete."""
    server = _Server(url)

    def tool(
        verb: str,
        about: str,
        arguments: type[Taken],
        act: Callable[[Taken], Any],
        what: ActionClass,
    ) -> Tool[Taken]:
        return Tool(
            tool_name(source, verb),
            about,
            arguments,
            act,
            what,
            principal=server.account,
            is_harmless=what is ActionClass.READ,
            is_one_step=True,
        )

    read, write = ActionClass.READ, ActionClass.CONDITIONAL_UPDATE
    delete = ActionClass.IRREVERSIBLE_DELETION
    return (
        tool("list", "What is right below a folder, a calendar or an address book.", Place,
             server.list, read),
        tool("read", "The text of one object, and its ETag.", Place, server.read, read),
        tool("busy", "When the owner of a calendar has no time; reads no event.", Busy,
             server.busy, read),
        tool("write", "Writes an object, unless it was changed since it was read.", Written,
             server.write, write),
        tool("delete", "Deletes an object, or a calendar and all in it.", Place,
             server.delete, delete),
    )  # fmt: skip


class _Server:
    """One account, a connection for each call."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        scheme = "https" if parts.scheme == "caldavs" else "http"
        self.account = unquote(parts.username or "") or None
        self._base = f"{scheme}://{parts.netloc.rpartition('@')[2]}"
        self._auth = httpx.BasicAuth(self.account or "", unquote(parts.password or ""))

    def list(self, asked: Place) -> Any:
        answer = self._ask("PROPFIND", asked.path, _LISTING, {"Depth": "1"})
        found = []
        try:
            responses = list(ET.fromstring(answer.content).iter(f"{_DAV}response"))  # noqa: S314 - expat bounds what entities grow to
        except ET.ParseError as error:
            raise ToolError(f"the server's answer is no listing: {error}") from error
        for each in responses:
            path = unquote(each.findtext(f"{_DAV}href") or "")
            kind = each.find(f".//{_DAV}resourcetype")
            what = "object"
            if kind is not None and len(kind):
                tags = {part.tag for part in kind}
                what = (
                    "calendar"
                    if f"{_CAL}calendar" in tags
                    else "address book"
                    if f"{_CARD}addressbook" in tags
                    else "folder"
                )
            if path.rstrip("/") != asked.path.rstrip("/"):
                name = each.findtext(f".//{_DAV}displayname")
                found.append({"path": path, "what": what, **({"name": name} if name else {})})
        more = {"more": True} if len(found) > MAX_LISTED else {}
        return {"found": found[:MAX_LISTED], **more}

    def read(self, asked: Place) -> Any:
        answer = self._ask("GET", asked.path)
        return {"text": answer.text[:MAX_TEXT], "etag": answer.headers.get("ETag")}

    def busy(self, asked: Busy) -> Any:
        body = (
            f'<C:free-busy-query xmlns:C="{_CAL[1:-1]}">'
            f'<C:time-range start="{asked.begin}" end="{asked.end}"/></C:free-busy-query>'
        )
        text = re.sub(r"\r?\n[ \t]", "", self._ask("REPORT", asked.path, body).text)
        lines = re.findall(r"^FREEBUSY[^:\n]*:([^\r\n]*)", text, re.MULTILINE)
        return {"busy": sorted(each for line in lines for each in line.split(","))}

    def write(self, asked: Written) -> Any:
        kind = "text/vcard" if asked.path.endswith(".vcf") else "text/calendar"
        guard = {"If-None-Match": "*"} if asked.etag is None else {"If-Match": asked.etag}
        text = asked.text.replace("\r\n", "\n").replace("\n", "\r\n")
        head = {"Content-Type": f"{kind}; charset=utf-8", **guard}
        answer = self._ask("PUT", asked.path, text, head)
        return {"written": asked.path, "etag": answer.headers.get("ETag")}

    def delete(self, asked: Place) -> Any:
        self._ask("DELETE", asked.path)
        return {"deleted": asked.path}

    def _ask(
        self, method: str, path: str, body: str = "", head: dict[str, str] | None = None
    ) -> httpx.Response:
        try:
            with httpx.Client(
                base_url=self._base, auth=self._auth, timeout=MAX_SECONDS, trust_env=False
            ) as client:
                answer = client.request(method, quote(path), content=body.encode(), headers=head)
        except (httpx.HTTPError, UnicodeError) as error:
            raise ToolError(f"the server did not answer: {str(error)[:300]}") from error
        if answer.status_code >= httpx.codes.BAD_REQUEST:
            said = answer.text[:200]
            raise ToolError(f"{method} {path} was refused with {answer.status_code}: {said}")
        return answer
