"""Files in the folder of a Radicale are state, read as strictly as the server reads them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sandboxes.office.tests.calendars.test_objects import CARD, MOVED
from statediff.capture.take import take
from statediff.contract.file import parse_contract
from statediff.kernel import judgement_of
from statediff.model.state import MemoryChunks
from statediff.model.verdict import Verdict
from statediff.workspace.inputs import offline_clock

pytest.importorskip("icalendar")

NOOP = b"contract: t/none\nversion: 1.0.0\nowner: t\nintent: Change nothing here.\nnoop: true\n"
WORK = Path("collection-root", "ada", "work")
PROPS = {"tag": "VCALENDAR", "D:displayname": "Work", "color": "1"}


def made(store: Path) -> Path:
    """A store with a calendar and an address book."""
    people = WORK.with_name("people")
    for place, props in ((WORK, PROPS), (people, {"tag": "VADDRESSBOOK"})):
        (store / place).mkdir(parents=True)
        (store / place / ".Radicale.props").write_text(json.dumps(props), encoding="utf-8")
    whole = f"BEGIN:VCALENDAR\nVERSION:2.0\n{MOVED}END:VCALENDAR\n"
    (store / WORK / "s.ics").write_text(whole, encoding="utf-8")
    (store / people / "t.vcf").write_text(CARD, encoding="utf-8")
    for path in (store, *store.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return store


def shown(store: Path) -> dict[str, list[Any]]:
    """The entities by type."""
    from statediff_office.calendars.store import RadicaleStoreSource  # noqa: PLC0415 - an extra

    source = RadicaleStoreSource("calendars", store, list)
    state = source.read(MemoryChunks(), lambda: datetime.now(UTC), None).state
    assert all(table.enumeration.is_complete for table in state.tables.values())
    return {name: list(table.rows()) for name, table in state.tables.items()}


def of_props(change: Callable[[str], bytes]) -> Callable[[Path], object]:
    def apply(store: Path) -> object:
        path = store / WORK / ".Radicale.props"
        return path.write_bytes(change(path.read_text(encoding="utf-8")))

    return apply


@pytest.mark.parametrize(
    "harm",
    [
        of_props(lambda text: b"\xef\xbb\xbf" + text.encode()),
        of_props(lambda text: text.encode("utf-16")),
        of_props(lambda text: text.replace('"1"', "1").encode()),
        of_props(lambda text: text.replace('"color"', '"color": "2", "color"').encode()),
        lambda store: (store / ".Radicale.lock").mkdir(),
        lambda store: (store / "collection-root").chmod(0o500),
        lambda store: (store / WORK / "s.ics").chmod(0),
        lambda store: (store / WORK / ".Radicale.props").chmod(0),
    ],
    ids=[
        *("a mark", "UTF-16", "a number", "a name twice"),
        *("a lock that is a folder", "a root that is read-only", "an object", "properties"),
    ],
)
def test_what_the_server_would_not_work_with_is_a_change(
    harm: Callable[[Path], object], tmp_path: Path
) -> None:
    before, after = made(tmp_path / "one"), made(tmp_path / "two")
    assert shown(after) == shown(before)
    harm(after)
    assert shown(after) != shown(before)


def test_the_lock_and_the_spelling_of_properties_are_no_state(tmp_path: Path) -> None:
    before, after = made(tmp_path / "one"), made(tmp_path / "two")
    (after / ".Radicale.lock").write_bytes(b"")
    path = after / WORK / ".Radicale.props"
    path.write_text(json.dumps(PROPS, sort_keys=True, indent=1), encoding="utf-8")
    assert shown(after) == shown(before)


def twice(store: Path) -> None:
    """An event of the same name in one object."""
    path = store / WORK / "s.ics"
    path.write_text(path.read_text(encoding="utf-8").replace(MOVED, MOVED + MOVED), "utf-8")


def copied(store: Path) -> None:
    (store / WORK / "other.ics").write_bytes((store / WORK / "s.ics").read_bytes())


def copied_card(store: Path) -> None:
    people = store / WORK.with_name("people")
    (people / "other.vcf").write_bytes((people / "t.vcf").read_bytes())


@pytest.mark.parametrize("harm", [twice, copied, copied_card])
def test_an_object_that_a_run_doubles_is_a_change_and_no_open_question(
    harm: Callable[[Path], None], tmp_path: Path
) -> None:
    from statediff_office.calendars.store import RadicaleStoreSource  # noqa: PLC0415 - an extra

    before, after = made(tmp_path / "one"), made(tmp_path / "two")

    def verdict() -> Verdict:
        store = MemoryChunks()
        sides = [RadicaleStoreSource("calendars", each, list) for each in (before, after)]
        first = take(sides[:1], store, offline_clock, None, "before")
        last = take(sides[1:], store, offline_clock, first, "after")
        return judgement_of(parse_contract(NOOP, "contract.yaml"), first, last).verdict

    assert verdict() is Verdict.MATCH
    harm(after)
    assert verdict() is Verdict.DIVERGE
