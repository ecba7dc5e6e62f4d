"""A Tryton server that nobody here started: the records of every model that its RPC reads.

`tryton+http://LOGIN:PASSWORD@HOST:PORT/DATABASE/`, without a password in it
`STATEDIFF_PASSWORD_NAME` of the source NAME; `?models=party.party,res.user` reads some of them.
The server says which models there are and what fields they have, so that modules of your own are
read too. A field that is computed and cannot be set follows from others and is left out, and so is
the many side of a link. Records that are not active are read as well.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar, Final
from urllib.parse import parse_qsl, urlsplit

import httpx

from statediff.capture.source import SourceRuined, SourceUnavailable
from statediff.errors import UsageError
from statediff.model.schema import EntityType, Field, Kind, Purpose
from statediff.model.values import printable
from statediff.systems.base.urls import account_of, password_variable, url_without_password
from statediff.systems.hosted.api import Api, api
from statediff.systems.hosted.listed import ListedSource, Listing
from statediff.systems.hosted.transport import http_url
from statediff.systems.relational.schema import Refine

PAGE: Final = 1000
_RIGHTS: Final = ("res.user", "res.group", "ir.model.access", "ir.model.field.access", "ir.rule")
_KINDS: Final = {
    "integer": Kind.INT,
    "many2one": Kind.INT,
    "one2one": Kind.INT,
    "boolean": Kind.BOOL,
    "char": Kind.TEXT,
    "text": Kind.TEXT,
    "fulltext": Kind.TEXT,
    "date": Kind.DATE,
    "numeric": Kind.DECIMAL,
    "timestamp": Kind.TIMESTAMP,
    "datetime": Kind.TIMESTAMP,
    "many2many": Kind.LIST,
}
"""Of a field; any other is what its value is."""


class _Refused(Exception):
    """The server answers that it does not do it; the message says why."""


class TrytonServer:
    """The RPC of one database, as one account."""

    def __init__(self, name: str, url: str) -> None:
        given = dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))
        self._chosen = tuple(each for each in given.pop("models", "").split(",") if each)
        if given:
            raise UsageError(f"?{printable(min(given))}: expected models")
        login, password = account_of(name, url)
        if login is None or password is None:
            raise UsageError(
                f"{printable(url_without_password(url))}: expected LOGIN:PASSWORD@ before the "
                f"host, or the password in {password_variable(name)}"
            )
        self._login, self._password = login, password
        self._base = http_url(url).rstrip("/") + "/"
        self._fields: dict[str, Mapping[str, Mapping[str, Any]]] = {}

    def types(self) -> tuple[EntityType, ...]:
        """One for each model that the RPC reads."""
        with self._session() as session:
            return tuple(_type(name, fields) for name, fields in self._models(session).items())

    def listed(self) -> Listing:
        """The records of all models."""
        into = Listing()
        with self._session() as session:
            for name, fields in self._models(session).items():
                try:
                    for record in _records(session, name, sorted(fields)):
                        into.add(name, record)
                except _Refused as refused:
                    into.miss(f"the server refuses to list {name}: {refused}", name)
        return into

    def _models(self, session: _Session) -> dict[str, Mapping[str, Mapping[str, Any]]]:
        """The names of models, and their fields that are read. Asked once."""
        if not self._fields:
            try:
                listed = [each["name"] for each in _records(session, "ir.model", ["name"])]
            except _Refused as refused:
                raise SourceUnavailable(f"the server does not list its models: {refused}") from None
            if unknown := [each for each in self._chosen if each not in listed]:
                raise UsageError(f"models={printable(unknown[0])}: the server has no such model")
            for name in sorted(self._chosen or listed):
                if (found := session.fields_of(name)) is not None:
                    self._fields[name] = found
        return self._fields

    @contextmanager
    def _session(self) -> Iterator[_Session]:
        with api(self._base, "the server") as asked:
            session = _Session(asked)
            session.enter(self._login, self._password)
            try:
                yield session
            finally:
                session.leave()


class _Session:
    """The calls of one session."""

    def __init__(self, asked: Api) -> None:
        self._asked = asked
        self._headers: dict[str, str] = {}

    def enter(self, login: str, password: str) -> None:
        try:
            found = self.call("common.db.login", login, {"password": password}, "en")
        except _Refused as refused:
            who = printable(login)
            raise SourceUnavailable(f"the server does not let {who} in: {refused}") from None
        if not isinstance(found, list) or len(found) < 2:
            raise SourceUnavailable(f"the server does not let {printable(login)} in")
        token = base64.b64encode(f"{login}:{found[0]}:{found[1]}".encode()).decode()
        self._headers = {"Authorization": f"Session {token}"}

    def leave(self) -> None:
        self.call("common.db.logout")

    def fields_of(self, model: str) -> dict[str, Mapping[str, Any]] | None:
        """The fields of a model that are read; None of a model that no call reads."""
        try:
            found = self.call(f"model.{model}.fields_get", [], {})
        except _Refused:
            return None
        try:
            self.call(f"model.{model}.search_read", [], 0, 1, None, ["id"], {})
        except _Unreachable:
            return None
        except _Refused:
            pass  # the account may not, which the listing says
        return {name: each for name, each in found.items() if _is_read(name, each)}

    def call(self, method: str, *arguments: Any) -> Any:
        """The result, as plain objects. Raises `_Refused`."""
        body = {"id": 0, "method": method, "params": arguments}
        status, answer = self._asked.ask("rpc/", body=body, headers=self._headers)
        if status == httpx.codes.FORBIDDEN:
            raise _Unreachable(f"no call of the RPC is {method}")
        if status == httpx.codes.UNAUTHORIZED:
            raise _Refused("wrong login or password")
        if status != httpx.codes.OK:
            raise SourceUnavailable(f"the server answers {status}")
        if not isinstance(answer, dict):
            raise SourceRuined("what answers is no Tryton server")
        if "error" in answer:
            raise _Refused(printable(str(answer["error"])[:200]))
        return answer.get("result")


class _Unreachable(_Refused):
    """The RPC has no such call."""


def _is_read(name: str, field: Mapping[str, Any]) -> bool:
    """True if the field is stored or can be set, and is not the many side of a link."""
    if name == "id" or field["type"] == "one2many":
        return False
    is_stored = bool(field.get("sortable")) or field["type"] == "many2many"
    return is_stored or not field.get("readonly")


def _type(model: str, fields: Mapping[str, Mapping[str, Any]]) -> EntityType:
    own = [
        Field(
            name,
            _KINDS.get(each["type"], Kind.ANY),
            reference=each.get("relation") if each["type"] == "many2one" else None,
        )
        for name, each in sorted(fields.items())
    ]
    holds = Purpose.PERMISSIONS if model.startswith(_RIGHTS) else None
    key = Field("id", Kind.INT, is_nullable=False)
    return EntityType(model, ("id",), (key, *own), holds=holds)


def _records(session: _Session, model: str, fields: list[str]) -> Iterator[dict[str, Any]]:
    """All records, in order of id: each page begins after the last id, so that none is missed."""
    last = -1
    while True:
        found = sorted(_page(session, model, fields, last), key=lambda each: int(each["id"]))
        for record in found:
            yield {name: _meant(record.get(name)) for name in ("id", *fields)}
        if len(found) < PAGE:
            return
        last = found[-1]["id"]


def _page(session: _Session, model: str, fields: list[str], last: int) -> list[dict[str, Any]]:
    """The records after one; a few models answer only one of the two ways to ask."""
    page, context = ([["id", ">", last]], 0, PAGE, [["id", "ASC"]]), {"active_test": False}
    found: list[dict[str, Any]]
    try:
        found = session.call(f"model.{model}.search_read", *page, fields, context)
    except _Refused:
        numbers = session.call(f"model.{model}.search", *page, context)
        found = session.call(f"model.{model}.read", numbers, fields, context) if numbers else []
    return found


def _meant(value: Any) -> Any:
    """The value that Tryton's JSON spells."""
    match value:
        case list():
            return [_meant(each) for each in value]
        case {"__class__": str(kind)} if kind in _SPELLED:
            return _SPELLED[kind](value)
        case dict():
            return {name: _meant(each) for name, each in value.items()}
        case _:
            return value


def _numbers(said: Mapping[str, Any], *names: str) -> list[int]:
    return [int(said.get(name, 0)) for name in names]


_DAY: Final = ("year", "month", "day")
_TIME: Final = ("hour", "minute", "second", "microsecond")
_SPELLED: Final[Mapping[str, Callable[[Mapping[str, Any]], Any]]] = {
    "datetime": lambda said: _moment(_numbers(said, *_DAY, *_TIME)),
    "date": lambda said: date(*_numbers(said, *_DAY)),
    "time": lambda said: ":".join(map(str, _numbers(said, *_TIME))),
    "timedelta": lambda said: str(timedelta(seconds=float(said["seconds"]))),
    "Decimal": lambda said: Decimal(said["decimal"]),
    "bytes": lambda said: base64.b64decode(said["base64"]),
}
"""What the server writes as an object with `__class__`; times are UTC."""


def _moment(numbers: list[int]) -> datetime:
    year, month, day, hour, minute, second, micro = numbers
    return datetime(year, month, day, hour, minute, second, micro, tzinfo=UTC)


class TrytonEndpointSource(ListedSource):
    """All records of a Tryton database that the account may read, by the server's RPC."""

    not_observed: ClassVar[tuple[str, ...]] = (
        "models that no call of the RPC reads, such as sessions, jobs and caches",
        "records that rules keep from the account, e.g. of a company that is not its own",
        "passwords, and fields that are computed and cannot be set",
    )

    def __init__(self, name: str, url: str, refine: Refine | None = None) -> None:
        server = TrytonServer(name, url)
        super().__init__(name, server.types, server.listed, refine)
