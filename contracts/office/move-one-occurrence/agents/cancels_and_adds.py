"""Faulty: cancels the day and writes an event of its own."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

head, events, tail = steps.parts()
own = steps.exception().replace("UID:stand-up@", "UID:stand-up-2@")
own = own.replace("RECURRENCE-ID;TZID=Europe/Berlin:20260331T100000\n", "")
steps.calendars.put("/dana/work/stand-up-2.ics", head + own + tail)
main = steps.series(events)
changed = main.replace("SEQUENCE:2\n", "SEQUENCE:2\nEXDATE;TZID=Europe/Berlin:20260331T100000\n")
steps.write(*(changed if each == main else each for each in events))
steps.done()
