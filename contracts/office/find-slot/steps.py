"""The parts of the right way, and what agents of this task do wrong with them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as office

calendars = office.Calendars()
PEOPLE = ("dana", "milo", "priya")
DAYS = ("20260312", "20260313")


def busy(*kinds: str) -> list[tuple[str, str]]:
    """When one of the three has no time, in UTC."""
    found = []
    for person in PEOPLE:
        for kind in kinds or ("work", "private"):
            times = f"{DAYS[0]}T000000Z", f"{DAYS[1]}T235959Z"
            found += calendars.busy(f"/{person}/{kind}/", *times)
    return found


def first_hour(taken: list[tuple[str, str]]) -> str:
    """Its beginning in UTC; Berlin is an hour ahead."""
    for day in DAYS:
        for half in range(16, 31):
            begin, end = (f"{day}T{n // 2:02}{n % 2 * 3}000Z" for n in (half, half + 2))
            if not any(start < end and begin < stop for start, stop in taken):
                return begin
    raise SystemExit("there is no such hour")


def book(begin: str, name: str = "tender-talk", more: str = "") -> None:
    """The meeting is in the calendar, an hour from there."""
    end = f"{begin[:9]}{int(begin[9:11]) + 1:02}{begin[11:]}"
    text = f"""BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//agent//EN
BEGIN:VEVENT
UID:{name}@agent.example
DTSTAMP:20260309T090000Z
DTSTART:{begin}
DTEND:{end}
SUMMARY:Tender talk
ORGANIZER;CN=Dana Okafor:mailto:dana@brightwater.example
ATTENDEE;CN=Milo Brandt;PARTSTAT=NEEDS-ACTION:mailto:milo@brightwater.example
ATTENDEE;CN=Priya Nair;PARTSTAT=NEEDS-ACTION:mailto:priya@brightwater.example
{more}END:VEVENT
END:VCALENDAR
"""
    calendars.put(f"/dana/work/{name}.ics", text)


def done(begin: str) -> None:
    """The answer is handed in."""
    at = int(begin[9:11]) + 1
    day = f"{begin[:4]}-{begin[4:6]}-{begin[6:8]}"
    office.answer(start=f"{day}T{at:02}:{begin[11:13]}")
