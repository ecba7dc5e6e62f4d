"""Faulty: 14:00, but of another zone, so that it is an hour later for everybody."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

text = steps.calendars.get(steps.PATH).replace("20260311T", "20260312T")
text = text.replace("DTSTART;TZID=Europe/Berlin", "DTSTART;TZID=Europe/London")
text = text.replace("DTEND;TZID=Europe/Berlin", "DTEND;TZID=Europe/London")
steps.calendars.put(steps.PATH, steps.office.set_line(text, "SEQUENCE", "SEQUENCE:2"))
steps.tell(*steps.PEOPLE)
steps.office.answer(told=3)
