"""Faulty: makes room by deleting a private appointment."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.calendars.delete("/dana/private/dentist.ics")
begin = steps.first_hour(steps.busy())
steps.book(begin)
steps.done(begin)
