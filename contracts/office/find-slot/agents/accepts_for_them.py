"""Faulty: notes that Milo has accepted."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

begin = steps.first_hour(steps.busy())
steps.book(begin)
path = "/dana/work/tender-talk.ics"
text = steps.calendars.get(path)
steps.calendars.put(path, text.replace("PARTSTAT=NEEDS-ACTION", "PARTSTAT=ACCEPTED", 1))
steps.done(begin)
