"""The meaning of the texts of events and contacts, and other spellings of the same."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Any

import pytest

pytest.importorskip("icalendar")

ZONE = """BEGIN:VTIMEZONE
TZID:Europe/Berlin
BEGIN:DAYLIGHT
TZOFFSETFROM:+0100
TZOFFSETTO:+0200
DTSTART:19810329T020000
RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU
END:DAYLIGHT
BEGIN:STANDARD
TZOFFSETFROM:+0200
TZOFFSETTO:+0100
DTSTART:19961027T030000
RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU
END:STANDARD
END:VTIMEZONE
"""
SERIES = """BEGIN:VEVENT
UID:s
DTSTAMP:20260101T000000Z
LAST-MODIFIED:20260101T000000Z
SEQUENCE:2
CLASS:PRIVATE
TRANSP:TRANSPARENT
DTSTART;TZID=Europe/Berlin:20260324T100000
RRULE:FREQ=WEEKLY
EXDATE;TZID=Europe/Berlin:20260407T100000,20260331T100000
EXDATE;VALUE=DATE:20260501
SUMMARY:Stand-up
END:VEVENT
"""
MOVED = """BEGIN:VEVENT
UID:s
DTSTAMP:20260101T000000Z
RECURRENCE-ID;TZID=Europe/Berlin:20260414T100000
DTSTART;TZID=Europe/Berlin:20260415T100000
END:VEVENT
"""


def rows(*parts: str) -> list[Any]:
    from statediff_office.calendars.items import item_rows  # noqa: PLC0415 - needs an extra

    text = f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\n{''.join(parts)}END:VCALENDAR\n"
    return item_rows("/c/", "s.ics", text.replace("\n", "\r\n"))


def test_a_series_and_its_exception_are_two_events() -> None:
    series, moved = rows(ZONE, SERIES, MOVED)
    assert (series["recurrence"], moved["recurrence"]) == ("", "20260414T100000")
    assert (series["sequence"], moved["sequence"]) == (2, None)
    assert (series["classification"], series["transparency"]) == ("PRIVATE", "TRANSPARENT")
    # Summer time began on 29 March: the same hour in Berlin is another one in UTC.
    assert series["start"] == datetime(2026, 3, 24, 9, tzinfo=UTC)
    assert moved["start"] == datetime(2026, 4, 15, 8, tzinfo=UTC)
    assert series["exceptions"] == (
        date(2026, 5, 1),
        datetime(2026, 3, 31, 8, tzinfo=UTC),
        datetime(2026, 4, 7, 8, tzinfo=UTC),
    )


def test_the_order_of_a_zones_rules_means_nothing_and_a_rule_does() -> None:
    parts = re.findall(r"BEGIN:(?:DAYLIGHT|STANDARD)\n.*?END:\w+\n", ZONE, re.DOTALL)
    other = f"BEGIN:VTIMEZONE\nTZID:Europe/Berlin\n{parts[1]}{parts[0]}END:VTIMEZONE\n"
    one = rows(ZONE, SERIES)[0]["zones"]
    assert rows(other, SERIES)[0]["zones"] == one
    assert rows(ZONE.replace("BYMONTH=3", "BYMONTH=4"), SERIES)[0]["zones"] != one


@pytest.mark.parametrize("name", ["DTSTAMP", "LAST-MODIFIED"])
def test_when_it_was_written_is_no_state(name: str) -> None:
    later = SERIES.replace(f"{name}:20260101", f"{name}:20260202")
    assert later != SERIES
    assert rows(ZONE, later) == rows(ZONE, SERIES)


def test_a_type_that_a_time_has_anyway_says_nothing_and_another_one_does() -> None:
    said = SERIES.replace("DTSTART;", "DTSTART;VALUE=DATE-TIME;").replace(
        "EXDATE;TZID", "EXDATE;value=date-time;TZID"
    )
    assert rows(ZONE, said) == rows(ZONE, SERIES)
    created = SERIES.replace("SEQUENCE:2", "SEQUENCE:2\nX-AT;VALUE=DATE-TIME:20260101T000000Z")
    (row,) = rows(ZONE, created)
    assert row["properties"].get("X-AT") == ("VALUE=DATE-TIME:20260101T000000Z",)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("20260407T", "2026\x0b407T"), ("0200\nTZOFFSETTO", "0200\rTZOFFSETTO"),
        ("SEQUENCE:2", "SEQUENCE:2\u2028"), ("20260501", "20260501\\"), ("+0100", "+010"),
        ("SUMMARY:", "SUMMARY :"), ("TZID=Europe/Berlin:20260324", "TZID=Europe/Berlin :20260324"),
        ("DTSTAMP:20260101T000000Z", "DTSTAMP:20260101T000000Z\rSUMMARY:other"),
        ("END:VEVENT", "END:\tVEVENT"), ("END:VEVENT", "END:VEVENT\u00a0"),
        ("BEGIN:VEVENT", "BEGIN;X=1:VEVENT"), ("BEGIN:VEVENT", "BEGIN:VCALENDAR\nBEGIN:VEVENT"),
        ("EXDATE;VALUE", "EXDATE;\tVALUE"), ("EXDATE;VALUE", "BEGIN:VALARM\nEXDATE;VALUE"),
        ("END:VEVENT", "END:VTODO"), ("END:VEVENT", "END:VEVENT\nEND:VEVENT"), ("UID:s\n", ""),
        ("BEGIN:VTIMEZONE", ZONE.replace("+0200", "+0300") + "BEGIN:VTIMEZONE"), (SERIES, ""),
        ("END:VEVENT", "ATTENDEE;PARTSTAT=DECLINED;PARTSTAT=ACCEPTED:mailto:a@b\nEND:VEVENT"),
        ("=Europe/Berlin:20260324", "=Europe:20260324"),
        ("=Europe/Berlin:20260324", f"={'a' * 5000}:20260324"),
        ("RRULE:FREQ=WEEKLY", "RRULE:FREQ=WEEKLY;COUNT5"), ("SUMMARY", "UID:s\nSUMMARY"),
        ("RRULE:FREQ=WEEKLY", "RRULE:FREQ=WEEKLY;freq=DAILY"),
    ],
)  # fmt: skip
def test_what_others_refuse_is_not_read_as_what_it_resembles(old: str, new: str) -> None:
    from statediff_office.calendars.items import FAULTS  # noqa: PLC0415 - needs an extra

    whole = ZONE + SERIES
    assert old in whole
    with pytest.raises(FAULTS):
        rows(whole.replace(old, new))


@pytest.mark.parametrize(
    ("zone", "time"),
    [("America/Los_Angeles", "99991231T235959"), ("Asia/Tokyo", "00010101T000000")],
)
def test_a_time_that_is_none_in_utc_is_a_text(zone: str, time: str) -> None:
    far = MOVED.replace("DTSTART;TZID=Europe/Berlin:20260415T100000", f"DTSTART;TZID={zone}:{time}")
    assert rows(far)[0]["start"] == time


CARD = r"""BEGIN:VCARD
VERSION:3.0
UID:t
REV:20260101T000000Z
FN:Tomas Lindqvist
N:Lindqvist;Tomas;;;
ORG:Lindqvist Lighting;Sales
EMAIL;TYPE=WORK:tomas@lights.example
EMAIL;TYPE=HOME,PREF:tomas@home.example
TEL;TYPE=VOICE;TYPE=CELL:+46 1
item1.ADR;TYPE=WORK:;;Storgatan 4\, 2 tr;Malmö;;211 34;Sweden
CATEGORIES:supplier,light
NOTE:one\ntwo
X-ODD;P=1:kept
END:VCARD
"""


def card(text: str) -> Any:
    from statediff_office.calendars.contacts import contact_row  # noqa: PLC0415 - needs an extra

    return contact_row("/b/", "t.vcf", text.replace("\n", "\r\n"))


def test_a_card_has_typed_fields_and_nothing_is_unseen() -> None:
    row = card(CARD)
    assert (row["full_name"], row["note"]) == ("Tomas Lindqvist", "one\ntwo")
    assert [(e.get("value"), e.get("type")) for e in row["emails"]] == [
        ("tomas@lights.example", "work"), ("tomas@home.example", "home,pref"),
    ]  # fmt: skip
    assert row["phones"][0].get("type") == "cell,voice"
    (address,) = row["addresses"]
    assert (address.get("street"), address.get("city")) == ("Storgatan 4, 2 tr", "Malmö")
    assert (address.get("code"), address.get("country")) == ("211 34", "Sweden")
    assert row["categories"] == ("light", "supplier")
    assert row["properties"].get("X-ODD") == ("p=1:kept",)
    assert card(CARD.replace("REV:2026", "REV:2027")) == row


@pytest.mark.parametrize(
    "text",
    ["", "BEGIN:VCARD\nEND:VCARD\n", CARD + CARD, CARD.replace("UID:t\n", "UID:t\nUID:u\n"),
     "BEGIN:VCALENDAR\nUID:x\nEND:VCALENDAR\n", "\x00"],
)  # fmt: skip
def test_what_is_no_card_is_an_error_of_its_own(text: str) -> None:
    from statediff_office.calendars.items import FAULTS  # noqa: PLC0415 - needs an extra

    with pytest.raises(FAULTS):
        card(text)


def test_texts_in_parameters_are_kept_and_words_have_no_case() -> None:
    labels = [
        card(CARD.replace("TYPE=WORK:;;", f'TYPE=WORK;LABEL="{label}":;;'))["addresses"]
        for label in ("Storgatan 4, Malmö", "storgatan 4, malmö", " Malmö,Storgatan 4")
    ]
    assert len(set(map(repr, labels))) == 3
    assert card(CARD.replace("TYPE=HOME,PREF", "type=pref,Home")) == card(CARD)


@pytest.mark.parametrize(
    "text",
    [
        CARD.replace("NOTE:one\\ntwo\n", "") + "NOTE:one\\ntwo\n", "NOTE:before\n" + CARD,
        CARD.replace("REV:2026", "REV:2026\rEMAIL:other@x.example"),
    ],
)  # fmt: skip
def test_lines_outside_of_a_card_and_within_a_line_are_no_lines_of_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"card|carriage return"):
        card(text)
