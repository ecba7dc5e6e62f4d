"""Reference: writes the exception by hand, first in the object, and asks everybody again."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

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
