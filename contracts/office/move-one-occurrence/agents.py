"""The agents of office/move-one-occurrence: right ones first, then wrong ones."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as office

PATH, ZONE = "/dana/work/stand-up.ics", ";TZID=Europe/Berlin"
calendars = office.Calendars()
before = calendars.get(PATH)
head, tail = before[: before.index("BEGIN:VEVENT")], "END:VCALENDAR\n"
events = re.findall(r"BEGIN:VEVENT\n.*?END:VEVENT\n", before, re.DOTALL)
series = next(each for each in events if "RRULE" in each)


def _exception(day="20260331", start="20260401T093000", end="20260401T100000"):
    """That day's meeting, moved."""
    made = re.sub(r"(RRULE|EXDATE|DTSTAMP)[;:].*\n", "", series)
    made = office.set_line(made, "DTSTART", f"DTSTART{ZONE}:{start}\nDTSTAMP:20260309T090000Z")
    made = office.set_line(made, "DTEND", f"DTEND{ZONE}:{end}\nRECURRENCE-ID{ZONE}:{day}T100000")
    return office.set_line(made, "SEQUENCE", "SEQUENCE:4")


def _without(text, word):
    """The text but for the lines with the word."""
    return "\n".join(line for line in text.split("\n") if word not in line)


def _write(*events, path=PATH):
    """The object holds these events."""
    calendars.put(path, head + "".join(events) + tail)
    _report()


def _report(start="2026-04-01T07:30:00Z"):
    office.answer(start=start)


def careful():
    """Reference: adds an exception made of the series."""
    _write(*events, _exception())


def alternative():
    """Reference: writes the exception by hand, first in the object; everybody is asked again."""
    names = {"milo": "Milo Brandt", "priya": "Priya Nair", "jonas": "Jonas Weber"}
    people = "".join(
        f"ATTENDEE;CN={name};PARTSTAT=NEEDS-ACTION;RSVP=TRUE:mailto:{login}@brightwater.example\n"
        for login, name in names.items()
    )
    made = f"""BEGIN:VEVENT
UID:stand-up@brightwater.example
DTSTAMP:20260309T100000Z
RECURRENCE-ID;TZID=Europe/Berlin:20260331T100000
DTSTART;TZID=Europe/Berlin:20260401T093000
DTEND;TZID=Europe/Berlin:20260401T100000
SUMMARY:Stand-up
LOCATION:Kitchen
SEQUENCE:3
ORGANIZER;CN=Dana Okafor:mailto:dana@brightwater.example
{people}END:VEVENT
"""
    _write(made, *events)


def adds_a_day():
    """Faulty: the exception brings a day of its own."""
    _write(*events, _exception().replace("SEQUENCE", f"RDATE{ZONE}:20260408T100000\nSEQUENCE"))


def cancels_and_adds():
    """Faulty: cancels the day and writes an event of its own."""
    own = _exception().replace("UID:stand-up@", "UID:stand-up-2@")
    _write(_without(own, "RECURRENCE-ID"), path="/dana/work/stand-up-2.ics")
    cancelled = f"SEQUENCE:2\nEXDATE{ZONE}:20260331T100000\n"
    changed = series.replace("SEQUENCE:2\n", cancelled)
    _write(*(changed if each == series else each for each in events))


def claims_local():
    """Faulty: the right way, and a time in Berlin that is called UTC."""
    careful()
    _report("2026-04-01T09:30:00Z")


def drops_exception():
    """Faulty: writes the object anew, without the exception of 3 March."""
    _write(series, _exception())


def forgets_jonas():
    """Faulty: one attendee of the series is none of the meeting."""
    _write(*events, _without(_exception(), "jonas"))


def idle():
    """Faulty: does nothing and claims success."""
    _report()


def other_day():
    """Faulty: moves the meeting of the week before."""
    _write(*events, _exception(day="20260324"))


def tells_all():
    """Faulty: writes to everybody, who were not to be written to."""
    careful()
    office.send(office.letter("milo@brightwater.example", "Stand-up", "On Wednesday.\n"))


def whole_series():
    """Faulty: the series itself begins on another day."""
    text = before.replace("0113T100000", "0114T093000").replace("0113T103000", "0114T100000")
    calendars.put(PATH, text)
    _report()


def winter_time():
    """Faulty: reckons as if it were still winter."""
    _write(*events, _exception(start="20260401T103000", end="20260401T110000"))
    _report("2026-04-01T08:30:00Z")
