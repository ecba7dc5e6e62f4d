"""Faulty: the series itself begins on another day."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

text = steps.calendars.get(steps.PATH)
text = text.replace("0113T100000", "0114T093000").replace("0113T103000", "0114T100000")
steps.calendars.put(steps.PATH, text)
steps.done()
