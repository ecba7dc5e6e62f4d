"""The parts of the right way, and what agents of this task do wrong with them."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as office

PATH = "/dana/work/stand-up.ics"
calendars = office.Calendars()


def parts() -> tuple[str, list[str], str]:
    """What is before the events, the events, and what is after them."""
    text = calendars.get(PATH)
    events = re.findall(r"BEGIN:VEVENT\n.*?END:VEVENT\n", text, re.DOTALL)
    return text[: text.index("BEGIN:VEVENT")], events, "END:VCALENDAR\n"


def series(events: list[str]) -> str:
    """The event that is the series itself."""
    return next(each for each in events if "RRULE" in each)


def exception(
    day: str = "20260331", start: str = "20260401T093000", end: str = "20260401T100000"
) -> str:
    """That day's meeting, moved."""
    made = re.sub(r"(RRULE|EXDATE|DTSTAMP)[;:].*\n", "", series(parts()[1]))
    zone = ";TZID=Europe/Berlin"
    made = office.set_line(made, "DTSTART", f"DTSTART{zone}:{start}\nDTSTAMP:20260309T090000Z")
    made = office.set_line(made, "DTEND", f"DTEND{zone}:{end}\nRECURRENCE-ID{zone}:{day}T100000")
    return office.set_line(made, "SEQUENCE", "SEQUENCE:4")


def write(*events: str) -> None:
    """The object holds these events."""
    head, _, tail = parts()
    calendars.put(PATH, head + "".join(events) + tail)


def done(start: str = "2026-04-01T07:30:00Z") -> None:
    """The answer is handed in."""
    office.answer(start=start)
