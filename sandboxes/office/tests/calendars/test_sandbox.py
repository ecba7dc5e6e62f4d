"""Calendars of a sandbox: every way an agent can leave them is drift, and a reset removes it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import httpx
import pytest
from statediff_office.calendars.sandbox import EmbeddedCalendars, read_calendar_seed

from statediff.capture.source import SourceUnavailable
from statediff.conformance import Change, FeedSuite, SystemSuite, Way
from statediff.errors import SandboxError
from statediff.model.state import MemoryChunks, State
from statediff.packs import SandboxPack, sandbox_pack
from statediff.systems.base.protocol import System
from statediff.systems.base.tool import ToolError

pytestmark = pytest.mark.pack("statediff[office]")

FREE_BUSY = (
    '<C:free-busy-query xmlns:C="urn:ietf:params:xml:ns:caldav">'
    '<C:time-range start="20260312T000000Z" end="20260313T000000Z"/></C:free-busy-query>'
)
EVENT = (
    "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:new\r\n"
    "DTSTAMP:20260309T090000Z\r\nDTSTART:20260312T100000Z\r\nSUMMARY:New\r\n"
    "END:VEVENT\r\nEND:VCALENDAR\r\n"
)
RENAMED = (
    '<propertyupdate xmlns="DAV:"><set><prop><displayname>Mine</displayname></prop></set>'
    "</propertyupdate>"
)
WORK = "collection-root/dana/work"
PROPS = f"{WORK}/.Radicale.props"


def client(system: System) -> httpx.Client:
    url = urlsplit(system.url)
    return httpx.Client(
        base_url=f"http://{url.hostname}:{url.port}",
        auth=(url.username or "", url.password or ""),
        trust_env=False,
        timeout=20,
    )


def ask(
    method: str, path: str, body: str = "", **headers: str
) -> Callable[[System], httpx.Response]:
    def apply(system: System) -> httpx.Response:
        with client(system) as session:
            answer = session.request(method, path, content=body.encode(), headers=headers)
        assert answer.status_code < 400, answer.text
        return answer

    return apply


def in_store(act: Callable[[Path], object]) -> Callable[[Any], None]:
    """An act, below the store, of a program of the server's own user."""

    def apply(system: Any) -> None:
        act(system.store)

    return apply


class TestCalendars(SystemSuite):
    source = "calendars"
    ways: ClassVar = {
        "an event is added": Way(ask("PUT", "/dana/work/new.ics", EVENT)),
        "an event is gone": Way(ask("DELETE", "/dana/work/budget.ics")),
        "an event has another path": Way(
            lambda s: ask("MOVE", "/dana/work/budget.ics",
                          Destination=f"http://{urlsplit(s.url).netloc.rpartition('@')[2]}"
                                      "/dana/work/b2.ics")(s)
        ),
        "a calendar is added": Way(ask("MKCALENDAR", "/dana/hidden/")),
        "a calendar is gone": Way(ask("DELETE", "/dana/private/")),
        "a calendar has another name": Way(ask("PROPPATCH", "/dana/work/", RENAMED)),
        "a contact is gone": Way(ask("DELETE", "/shared/people/kern.vcf")),
        "a calendar was read": Way(ask("GET", "/dana/private/dentist.ics")),
        "free-busy times were asked for": Way(ask("REPORT", "/milo/private/", FREE_BUSY)),
        "a file is there": Way(in_store(lambda s: (s / WORK / "note.txt").write_text("x"))),
        "a hidden folder is there": Way(in_store(lambda s: (s / "collection-root/.x").mkdir())),
        "somebody has a folder": Way(in_store(lambda s: (s / "collection-root/eve").mkdir())),
        "an object is a link": Way(in_store(lambda s: (s / WORK / "a.ics").symlink_to("/x"))),
        "an object is no event": Way(in_store(lambda s: (s / WORK / "budget.ics").write_text("?"))),
        "settings are no JSON": Way(in_store(lambda s: (s / PROPS).write_text("{"))),
        "a mode is changed": Way(in_store(lambda s: (s / WORK / "budget.ics").chmod(0o777))),
        "the store is gone": Way(
            in_store(lambda s: (s / "collection-root").rename(s / "elsewhere"))
        ),
    }  # fmt: skip

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("office")


class TestCalendarsFeed(FeedSuite):
    source = "calendars"
    changes: ClassVar = {
        "an event is added": Change(
            ask("PUT", "/dana/work/new.ics", EVENT), ask("DELETE", "/dana/work/new.ics")
        ),
        "a calendar is added": Change(
            ask("MKCALENDAR", "/dana/hidden/"), ask("DELETE", "/dana/hidden/")
        ),
    }
    losses: ClassVar = {
        "the server ends": lambda system: system.server.kill(),
        "a file is written past it": in_store(lambda s: (s / WORK / "note.txt").write_text("x")),
    }
    walks = 3

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("office")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCalendars]:
    made = TestCalendars.make(tmp_path_factory.mktemp("calendars") / "calendars")
    assert isinstance(made, EmbeddedCalendars)
    made.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def calendars(running: EmbeddedCalendars) -> EmbeddedCalendars:
    running.reset()
    return running


def state(calendars: EmbeddedCalendars) -> State:
    (source,) = calendars.sources()
    return source.read(MemoryChunks(), lambda: datetime.now(UTC), None).state


def keys(calendars: EmbeddedCalendars, entity: str) -> set[Any]:
    return {key for key, _ in state(calendars).tables[entity].rows()}


def test_what_was_looked_into_is_seen_and_by_what(calendars: EmbeddedCalendars) -> None:
    ask("PROPFIND", "/dana/", Depth="1")(calendars)
    assert keys(calendars, "look") == set()
    ask("REPORT", "/dana/private/", FREE_BUSY)(calendars)
    ask("GET", "/shared/people/kern.vcf")(calendars)
    ask("GET", "/dana/work/budget.ics")(calendars)
    assert keys(calendars, "look") == {
        ("/dana/private/", "free-busy"),
        ("/shared/people/", "contents"),
        ("/dana/work/", "contents"),
    }


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/milo/private/run.ics"),
        ("PUT", "/milo/work/site.ics"),
        ("DELETE", "/priya/work/"),
        ("PUT", "/priya/private/x.ics"),
        ("MKCALENDAR", "/milo/mine/"),
        ("GET", "/../store/x"),
    ],
)
def test_what_the_rights_do_not_allow_is_refused(
    calendars: EmbeddedCalendars, method: str, path: str
) -> None:
    with client(calendars) as session:
        assert session.request(method, path, content=EVENT).status_code >= 400
    assert calendars.verify()[1] == ()
    assert keys(calendars, "look") == set()


def test_free_busy_shows_times_and_no_words(calendars: EmbeddedCalendars) -> None:
    told = ask("REPORT", "/milo/private/", FREE_BUSY)(calendars).text
    assert "20260312T104500Z/20260312T120000Z" in told
    assert "Physiotherapy" not in told


def test_nobody_else_signs_in(calendars: EmbeddedCalendars) -> None:
    earlier = urlsplit(calendars.url)
    calendars.reset()
    now = urlsplit(calendars.url)
    for auth in (None, ("dana", earlier.password or ""), ("milo", now.password or "")):
        answer = httpx.get(f"http://127.0.0.1:{now.port}/dana/work/", auth=auth, trust_env=False)
        assert answer.status_code == 401


@pytest.mark.parametrize("is_parent", [True, False])
def test_a_server_that_was_killed_is_unread_and_a_reset_brings_another(
    calendars: EmbeddedCalendars, is_parent: bool
) -> None:
    pid = calendars.server.pid
    child = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
    os.kill(pid if is_parent else child, signal.SIGKILL)
    with pytest.raises(SourceUnavailable):
        state(calendars)
    assert "does not answer" in str(calendars.unsettled(0))
    assert [drift.what for drift in calendars.verify()[1]] == ["its server"]
    calendars.reset()
    assert calendars.verify()[1] == ()


def test_an_object_that_cannot_be_read_is_a_change_and_hides_nothing(
    calendars: EmbeddedCalendars,
) -> None:
    before = keys(calendars, "event")
    kept = keys(calendars, "store_file")
    (calendars.store / WORK / "budget.ics").write_bytes(b"\xff\x00" * 1000)
    gone = before - keys(calendars, "event")
    assert gone == {("/dana/work/", "budget@brightwater.example", "")}
    assert keys(calendars, "store_file") - kept == {(f"{WORK}/budget.ics",)}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda store: (store / WORK / "\udcff.ics").write_text(EVENT),
        lambda store: (store / WORK / "\udcff").mkdir(),
        lambda store: (store / "collection-root" / "\udcff").mkdir(),
        lambda store: (store / PROPS).write_text(
            r'{"tag": "VCALENDAR", "D:displayname": "\ud800"}'
        ),
        lambda store: (store / PROPS).write_text("[" * 100_000),
        lambda store: (store / PROPS).write_text('{"tag": []}'),
        lambda store: (store / WORK).chmod(0),
        lambda store: (store / WORK / "budget.ics").write_text(EVENT.replace("New", "\x00\u202e")),
        lambda store: (store / WORK / "huge.ics").write_text("x" * 20_000_000),
        lambda store: os.mkfifo(store / WORK / "pipe.ics"),
    ],
)
def test_whatever_is_in_the_store_is_a_change_and_never_an_error(
    calendars: EmbeddedCalendars, spoil: Callable[[Path], object]
) -> None:
    before = state(calendars)
    spoil(calendars.store)
    after = state(calendars)
    shown = [
        (t.row_count, t.enumeration, [c.digest for c in t.chunks]) for t in after.tables.values()
    ]
    assert shown != [
        (t.row_count, t.enumeration, [c.digest for c in t.chunks]) for t in before.tables.values()
    ]
    assert calendars.verify()[1]
    calendars.reset()
    assert calendars.verify()[1] == ()


ENDLESS = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:x
BEGIN:VEVENT
UID:endless
DTSTAMP:20260101T000000Z
DTSTART:00010101T000000Z
DTEND:00010101T000001Z
RRULE:FREQ=SECONDLY
END:VEVENT
END:VCALENDAR
"""
LATE = """<C:calendar-query xmlns:C="urn:ietf:params:xml:ns:caldav"><C:filter>
<C:comp-filter name="VCALENDAR"><C:comp-filter name="VEVENT">
<C:time-range start="90260101T000000Z" end="90260102T000000Z"/>
</C:comp-filter></C:comp-filter></C:filter></C:calendar-query>"""


def test_a_request_without_an_end_ends_and_leaves_no_open_question(
    calendars: EmbeddedCalendars,
) -> None:
    with client(calendars) as session:
        made = session.put("/dana/work/endless.ics", content=ENDLESS.replace("\n", "\r\n"))
        assert made.status_code == 201
        with pytest.raises(httpx.ReadTimeout):
            session.request("REPORT", "/dana/work/", content=LATE, timeout=0.5)
    assert calendars.unsettled(time.monotonic() + 30) is None
    assert any("endless" in key for key in keys(calendars, "event"))


def test_the_store_itself_is_looked_at(calendars: EmbeddedCalendars) -> None:
    modes = set()
    for mode in (0o777, 0o700):  # private as it is made, or for all to write
        calendars.store.chmod(mode)
        assert keys(calendars, "store_file") == {(".",)}
        modes.update(row["mode"] for _, row in state(calendars).tables["store_file"].rows())
    assert modes == {"0777", "0700"}
    calendars.store.chmod(0o755)
    assert keys(calendars, "store_file") == set()
    os.setxattr(calendars.store, "user.note", b"x")
    assert keys(calendars, "store_file") == {(".#beside",)}


def test_two_objects_of_one_uid_are_told_apart_from_one(calendars: EmbeddedCalendars) -> None:
    text = (calendars.store / WORK / "budget.ics").read_text()
    (calendars.store / WORK / "twin.ics").write_text(text)
    events = state(calendars).tables["event"]
    assert not events.enumeration.is_complete


@pytest.mark.parametrize("text", ["", "account: x", "account: x\ncollections: {a: {kind: b}}"])
def test_a_seed_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "seed.yaml").write_text(text)
    with pytest.raises(SandboxError, match="cannot be read as calendars"):
        read_calendar_seed(tmp_path / "seed.yaml")


def call(calendars: EmbeddedCalendars, verb: str, **given: Any) -> Any:
    """The tool's answer."""
    from statediff_office.calendars.tools import calendar_tools  # noqa: PLC0415 - as the plug-in does

    (tool,) = (t for t in calendar_tools("c", calendars.url) if t.name == f"c_{verb}")
    return tool.act(tool.arguments.model_validate(given))


def test_an_agent_works_on_the_calendars_by_tools(calendars: EmbeddedCalendars) -> None:
    listed = {each["path"]: each for each in call(calendars, "list", path="/dana/")["found"]}
    assert listed["/dana/work/"] == {"path": "/dana/work/", "what": "calendar", "name": "Work"}
    assert listed["/dana/contacts/"]["what"] == "address book"
    times = {"begin": "20260312T000000Z", "end": "20260313T000000Z"}
    busy = call(calendars, "busy", path="/milo/private/", **times)
    assert busy == {"busy": ["20260312T104500Z/20260312T120000Z"]}
    read = call(calendars, "read", path="/dana/work/budget.ics")
    text = read["text"].replace("SUMMARY:Budget", "SUMMARY:Budget 2027")
    call(calendars, "write", path="/dana/work/budget.ics", text=text, etag=read["etag"])
    call(calendars, "write", path="/dana/work/new.ics", text=EVENT)
    call(calendars, "delete", path="/dana/work/notary.ics")
    events = {key[1]: row for key, row in state(calendars).tables["event"].rows()}
    assert events["budget@brightwater.example"]["summary"] == "Budget 2027"
    assert "new" in events
    assert "notary@brightwater.example" not in events


@pytest.mark.parametrize(
    ("verb", "given"),
    [
        ("read", {"path": "/milo/private/run.ics"}),
        ("read", {"path": "/dana/work/none.ics"}),
        ("write", {"path": "/dana/work/budget.ics", "text": EVENT}),  # it is there already
        ("write", {"path": "/dana/work/budget.ics", "text": EVENT, "etag": '"stale"'}),
        ("write", {"path": "/dana/work/new.ics", "text": "nothing"}),
        ("write", {"path": "/milo/work/new.ics", "text": EVENT}),
        ("delete", {"path": "/milo/work/"}),
    ],
)
def test_a_call_that_cannot_be_says_why_and_changes_nothing(
    calendars: EmbeddedCalendars, verb: str, given: dict[str, Any]
) -> None:
    with pytest.raises(ToolError):
        call(calendars, verb, **given)
    assert calendars.verify()[1] == ()
