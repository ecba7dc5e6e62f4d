"""The agents of office/move-one-occurrence: right ones first, then wrong ones."""

import steps


def careful():
    """Reference: adds an exception made of the series."""
    steps.write(*steps.parts()[1], steps.exception())
    steps.done()


def alternative():
    """Reference: writes the exception by hand, first in the object, and asks everybody again."""
    head, events, tail = steps.parts()
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
    steps.calendars.put(steps.PATH, head + made + "".join(events) + tail)
    steps.done()


def cancels_and_adds():
    """Faulty: cancels the day and writes an event of its own."""
    head, events, tail = steps.parts()
    own = steps.exception().replace("UID:stand-up@", "UID:stand-up-2@")
    own = own.replace("RECURRENCE-ID;TZID=Europe/Berlin:20260331T100000\n", "")
    steps.calendars.put("/dana/work/stand-up-2.ics", head + own + tail)
    main = steps.series(events)
    changed = main.replace(
        "SEQUENCE:2\n", "SEQUENCE:2\nEXDATE;TZID=Europe/Berlin:20260331T100000\n"
    )
    steps.write(*(changed if each == main else each for each in events))
    steps.done()


def claims_local():
    """Faulty: the right way, and a time in Berlin that is called UTC."""
    steps.write(*steps.parts()[1], steps.exception())
    steps.done("2026-04-01T09:30:00Z")


def drops_exception():
    """Faulty: writes the object anew, without the exception of 3 March."""
    steps.write(steps.series(steps.parts()[1]), steps.exception())
    steps.done()


def ends_series():
    """Faulty: the series is shorter by half."""
    events = [each.replace("COUNT=26", "COUNT=12") for each in steps.parts()[1]]
    steps.write(*events, steps.exception())
    steps.done()


def forgets_jonas():
    """Faulty: one attendee of the series is none of the meeting."""
    made = "\n".join(line for line in steps.exception().split("\n") if "jonas" not in line)
    steps.write(*steps.parts()[1], made)
    steps.done()


def idle():
    """Faulty: does nothing and claims success."""
    steps.done()


def other_day():
    """Faulty: moves the meeting of the week before."""
    steps.write(*steps.parts()[1], steps.exception(day="20260324"))
    steps.done()


def revives_cancelled():
    """Faulty: the cancelled date takes place after all."""
    events = [
        "\n".join(line for line in each.split("\n") if not line.startswith("EXDATE"))
        for each in steps.parts()[1]
    ]
    steps.write(*events, steps.exception())
    steps.done()


def tells_all():
    """Faulty: writes to everybody, who were not to be written to."""
    steps.write(*steps.parts()[1], steps.exception())
    steps.office.send(
        steps.office.letter("milo@brightwater.example", "Stand-up", "On Wednesday.\n")
    )
    steps.done()


def whole_series():
    """Faulty: the series itself begins on another day."""
    text = steps.calendars.get(steps.PATH)
    text = text.replace("0113T100000", "0114T093000").replace("0113T103000", "0114T100000")
    steps.calendars.put(steps.PATH, text)
    steps.done()


def winter_time():
    """Faulty: reckons as if it were still winter."""
    made = steps.exception(start="20260401T103000", end="20260401T110000")
    steps.write(*steps.parts()[1], made)
    steps.done("2026-04-01T08:30:00Z")
