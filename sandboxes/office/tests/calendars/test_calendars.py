"""Calendars over CalDAV, on a Radicale that runs."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import httpx
import pytest

import statediff
from statediff.capture.source import SourceUnavailable
from statediff.errors import InputError, UsageError
from statediff.model.state import MemoryChunks
from statediff.workspace.inputs import offline_clock, one_capture
from tests.lines import verdict_where_the_line_is_cut

pytest.importorskip("icalendar")
pytest.importorskip("radicale")

PASSWORD = "hidden-secret"
EVENT = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//test//EN
BEGIN:VEVENT
UID:{uid}
DTSTAMP:20260105T000000Z
DTSTART;TZID=Europe/Berlin:20260105T120000
DTEND:20260105T120000Z
SUMMARY:{summary}
LOCATION:Room 1
RRULE:FREQ=DAILY;COUNT=3
ATTENDEE;PARTSTAT=ACCEPTED;CN=Ada:mailto:ada@example.org
X-SECRET:kept
BEGIN:VALARM
ACTION:DISPLAY
DESCRIPTION:soon
TRIGGER:-PT5M
END:VALARM
END:VEVENT
END:VCALENDAR
"""
DAY = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//test//EN
BEGIN:VTODO
UID:task
DTSTAMP:20260105T000000Z
DUE;VALUE=DATE:20260106
SUMMARY:Pay
END:VTODO
END:VCALENDAR
"""


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("radicale")
    (folder / "users").write_text(f"ada:{PASSWORD}\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    options = {
        "server-hosts": f"127.0.0.1:{number}", "auth-type": "htpasswd", "auth-delay": "0",
        "auth-htpasswd-filename": str(folder / "users"), "auth-htpasswd-encryption": "plain",
        "storage-filesystem-folder": str(folder / "data"), "logging-level": "error",
    }  # fmt: skip
    command = [sys.executable, "-m", "radicale", "--config", ""]
    server = subprocess.Popen(command + [f"--{n}={v}" for n, v in options.items()])
    try:
        for _ in range(400):
            try:
                httpx.get(f"http://127.0.0.1:{number}/", trust_env=False)
                break
            except httpx.TransportError:
                time.sleep(0.05)
        yield number
    finally:
        server.terminate()
        server.wait()


@pytest.fixture
def client(port: int) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=f"http://127.0.0.1:{port}", auth=("ada", PASSWORD), trust_env=False
    ) as client:
        client.delete("/ada/work/")
        made = client.request("MKCALENDAR", "/ada/work/")
        assert made.status_code == 201, made.text
        put(client, "one", EVENT.format(uid="one", summary="Lunch"))
        put(client, "task", DAY)
        yield client


def put(client: httpx.Client, name: str, text: str) -> None:
    reply = client.put(
        f"/ada/work/{name}.ics",
        content=text.replace("\n", "\r\n"),
        headers={"Content-Type": "text/calendar"},
    )
    assert reply.status_code in (201, 204), reply.text


def url(port: int, password: str = PASSWORD, path: str = "/ada/") -> str:
    return f"caldav://ada:{password}@127.0.0.1:{port}{path}"


@pytest.mark.usefixtures("client")
def test_every_part_of_an_item_is_seen(port: int) -> None:
    [part] = one_capture([f"c={url(port)}"], lambda _: None).parts
    assert part.reading.is_complete
    rows = {key[1]: row for key, row in part.state.tables["calendar.item"].rows()}
    one = rows["one"]
    assert (one["summary"], one["location"], one["kind"]) == ("Lunch", "Room 1", "VEVENT")
    assert one["start"] == datetime(2026, 1, 5, 11, tzinfo=UTC)
    assert one["end"] == datetime(2026, 1, 5, 12, tzinfo=UTC)
    assert rows["task"]["end"] == date(2026, 1, 6)
    [attendee] = one["attendees"]
    assert (attendee.get("address"), attendee.get("partstat")) == (
        "mailto:ada@example.org",
        "ACCEPTED",
    )
    assert one["properties"].get("X-SECRET") == ("kept",)
    assert "TRIGGER:-PT5M" in one["alarms"][0]


def test_a_stamp_is_no_change_and_a_word_is_one(client: httpx.Client, port: int) -> None:
    text = EVENT.format(uid="one", summary="Lunch")
    stamped = text.replace("20260105T000000Z", "20260106T000000Z")
    for written, types in (
        (stamped, {"calendar.residue"}),  # outside by default
        (text.replace("Room 1", "Room 2"), {"calendar.residue", "calendar.item"}),
    ):
        with statediff.watch(c=url(port), settle_seconds=0) as run:
            put(client, "one", written)
        assert {d["type"] for d in run.changes} == types


def test_what_is_written_during_the_reading_is_not_known(
    client: httpx.Client, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from statediff_office.calendars import source  # noqa: PLC0415 - it needs the extra

    rows, count = source._rows, iter(range(100))

    def written(*arguments: Any) -> Any:
        found = rows(*arguments)
        put(client, "one", EVENT.format(uid="one", summary=f"Lunch {next(count)}"))
        return found

    monkeypatch.setattr(source, "_rows", written)
    with pytest.raises(SourceUnavailable, match="written while it was read"):
        source.CalendarSource("c", url(port)).read(MemoryChunks(), offline_clock, None)


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize(
    ("password", "path", "words"),
    [("wrong-secret", "/ada/", "user or password is wrong"),
     (PASSWORD, "/ada/nosuch/", "404|no calendar")],
)  # fmt: skip
def test_what_is_wrong_is_named_without_the_password(
    port: int, password: str, path: str, words: str
) -> None:
    with pytest.raises(InputError, match=words) as caught:
        one_capture([f"c={url(port, password, path)}"], lambda _: None)
    assert password not in str(caught.value)
    with pytest.raises(InputError, match=r"refused.*check the URL"):
        one_capture([f"c={url(1, password, path)}"], lambda _: None)


@pytest.mark.usefixtures("client")
def test_the_password_may_come_from_the_environment(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"c-1=caldav://ada@127.0.0.1:{port}/ada/"
    with pytest.raises(InputError, match="password is wrong"):
        one_capture([place], lambda _: None)
    monkeypatch.setenv("STATEDIFF_PASSWORD_C_1", PASSWORD)
    assert one_capture([place], lambda _: None).parts[0].reading.is_complete


def test_no_password_goes_over_a_network_in_the_clear() -> None:
    with pytest.raises(UsageError, match="caldavs://"):
        one_capture(["c=caldav://ada:x@example.org/"], lambda _: None)


@pytest.mark.parametrize(
    ("cut", "verdict"), [(None, "MATCH"), (0, "INCONCLUSIVE"), (900, "INCONCLUSIVE")]
)
@pytest.mark.usefixtures("client")
def test_a_line_that_breaks_is_never_a_match(port: int, cut: int | None, verdict: str) -> None:
    assert verdict_where_the_line_is_cut(url(port), cut) == verdict
