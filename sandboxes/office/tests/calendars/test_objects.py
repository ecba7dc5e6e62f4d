"""What the texts of events and contacts say, and what is another spelling of the same."""

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


@pytest.mark.parametrize(
    "line",
    ["METHOD:CANCEL", "X-WR-CALNAME:Mine", "BEGIN:VFREEBUSY\nUID:f\nEND:VFREEBUSY", "VERSION:1.0"],
)
def test_what_an_object_says_outside_of_its_events_is_state(line: str) -> None:
    one, more = rows(ZONE, SERIES)[0], rows(f"{line}\n", ZONE, SERIES)[0]
    assert more.pop("properties") != one.pop("properties")
    assert more == one


def test_a_parameter_of_a_uid_is_state() -> None:
    plain, odd = rows(ZONE, SERIES)[0], rows(ZONE, SERIES.replace("UID:s", "UID;X-A=1:s"))[0]
    assert odd["uid"] == plain["uid"]
    assert odd["properties"] != plain["properties"]


def test_a_usual_head_of_an_object_says_nothing() -> None:
    assert rows("CALSCALE:GREGORIAN\n", ZONE, SERIES) == rows(ZONE, SERIES)


def test_a_type_that_a_time_has_anyway_says_nothing_and_another_one_does() -> None:
    said = SERIES.replace("DTSTART;", "DTSTART;VALUE=DATE-TIME;").replace(
        "EXDATE;TZID", "EXDATE;value=date-time;TZID"
    )
    assert rows(ZONE, said) == rows(ZONE, SERIES)
    created = SERIES.replace("SEQUENCE:2", "SEQUENCE:2\nX-AT;VALUE=DATE-TIME:20260101T000000Z")
    (row,) = rows(ZONE, created)
    assert row["properties"].get("X-AT") == ("VALUE=DATE-TIME:20260101T000000Z",)


@pytest.mark.parametrize("end", ["END:VTODO", "END:VEVENT\nEND:VEVENT"])
def test_a_component_that_ends_as_another_one_is_not_guessed_at(end: str) -> None:
    with pytest.raises(ValueError, match="ends where another component is open"):
        rows(ZONE, SERIES.replace("END:VEVENT", end))


def test_of_two_time_zones_of_one_name_neither_is_believed() -> None:
    other = ZONE.replace("TZOFFSETTO:+0200", "TZOFFSETTO:+0300")
    with pytest.raises(ValueError, match="twice"):
        rows(other, ZONE, SERIES)


def test_an_answer_that_is_there_twice_is_no_answer() -> None:
    said = "ATTENDEE;PARTSTAT=DECLINED;PARTSTAT=ACCEPTED:mailto:a@b\nEND:VEVENT"
    with pytest.raises(ValueError, match="ATTENDEE: partstat"):
        rows(ZONE, SERIES.replace("END:VEVENT", said))


def test_a_place_on_the_map_is_read() -> None:
    (row,) = rows(ZONE, SERIES.replace("SUMMARY", "GEO:55.6;13.0\nSUMMARY"))
    assert row["properties"].get("GEO") == ("55.6;13.0",)
    (other,) = rows(ZONE, SERIES.replace("SUMMARY", "GEO:55.6;13.5\nSUMMARY"))
    assert other["properties"] != row["properties"]


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
    ],
)  # fmt: skip
def test_what_others_refuse_is_not_read_as_what_it_resembles(old: str, new: str) -> None:
    whole = ZONE + SERIES
    assert old in whole
    with pytest.raises(ValueError, match=r"."):
        rows(whole.replace(old, new))


@pytest.mark.parametrize("line", ["DTSTAMP:20260101T000000Z", "LAST-MODIFIED:20260101T000000Z"])
def test_a_stamp_that_is_there_twice_is_state(line: str) -> None:
    assert rows(ZONE, SERIES.replace(line, f"{line}\n{line}")) != rows(ZONE, SERIES)
    (one,), (two,) = rows(MOVED), rows("PRODID:x\n", MOVED)
    assert one["properties"] != two["properties"]


@pytest.mark.parametrize(
    ("zone", "time"),
    [("America/Los_Angeles", "99991231T235959"), ("Asia/Tokyo", "00010101T000000")],
)
def test_a_time_that_is_none_in_utc_is_a_text(zone: str, time: str) -> None:
    far = MOVED.replace("DTSTART;TZID=Europe/Berlin:20260415T100000", f"DTSTART;TZID={zone}:{time}")
    assert rows(far)[0]["start"] == time


@pytest.mark.parametrize("zone", ["Europe", "a" * 5000], ids=["a folder", "too long"])
def test_a_zone_that_cannot_be_looked_up_is_a_fault_of_the_object(zone: str) -> None:
    from statediff_office.calendars.items import FAULTS  # noqa: PLC0415 - needs an extra

    with pytest.raises(FAULTS):
        rows(MOVED.replace("DTSTART;TZID=Europe/Berlin", f"DTSTART;TZID={zone}"))


def test_a_parameter_that_is_called_like_what_a_line_says_is_kept() -> None:
    answer = "ATTENDEE;ADDRESS=x:mailto:a@x.example\nSUMMARY"
    one, two = (rows(ZONE, SERIES.replace("SUMMARY", each)) for each in (
        answer, answer.replace(";ADDRESS=x", ""),
    ))  # fmt: skip
    assert one != two


def test_an_object_without_a_version_or_with_two_is_another_one() -> None:
    from statediff_office.calendars.items import item_rows  # noqa: PLC0415 - needs an extra

    one = f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{MOVED}END:VCALENDAR\r\n"
    (row,) = item_rows("/c/", "s.ics", one)
    for other in (
        one.replace("VERSION:2.0\r\n", ""),
        one.replace("VERSION", "VERSION:2.0\r\nVERSION"),
    ):
        assert item_rows("/c/", "s.ics", other) != [row]


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
    ("old", "new"),
    [
        ("WORK:tomas", "HOME:tomas"), ("Storgatan 4", "Storgatan 5"), ("P=1", "P=2"),
        ("kept", "other"), ("Sales", "Care"), ("item1.", "item2."), ("supplier", "client"),
        ("supplier", r"supp\lier"), ("Tomas Lindqvist\nN", "Tomas Lindqvist\\\nN"),
        ("EMAIL;TYPE=WORK", "EMAIL;VALUE=URI;TYPE=WORK"), ("ADR;TYPE", "ADR;CITY=x;TYPE"),
        ("item1.ADR;", "ADR;GROUP=item1;"), ("REV:20260101T000000Z", "REV:1\nREV:1"),
    ],
)  # fmt: skip
def test_any_other_change_of_a_card_shows(old: str, new: str) -> None:
    assert card(CARD.replace(old, new)) != card(CARD)


@pytest.mark.parametrize(
    "text",
    ["", "BEGIN:VCARD\nEND:VCARD\n", CARD + CARD, CARD.replace("UID:t\n", "UID:t\nUID:u\n"),
     "BEGIN:VCALENDAR\nUID:x\nEND:VCALENDAR\n", "\x00"],
)  # fmt: skip
def test_what_is_no_card_is_an_error_of_its_own(text: str) -> None:
    from statediff_office.calendars.items import FAULTS  # noqa: PLC0415 - needs an extra

    with pytest.raises(FAULTS):
        card(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("VERSION:3.0\n", ""), ("VERSION:3.0", "VERSION:2.1"), ("VERSION:3.0", "VERSION:3.0^"),
        ("VERSION:3.0\n", "VERSION:3.0\nVERSION:3.0\n"), ("UID:t", "UID;X=1:t"),
        ("TYPE=WORK:;;", 'TYPE=WORK;LABEL="Storgatan 4, Malmö":;;'),
    ],
)  # fmt: skip
def test_how_a_card_says_what_it_is_shows(old: str, new: str) -> None:
    assert card(CARD.replace(old, new)) != card(CARD)


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
