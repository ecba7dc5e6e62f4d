"""Faulty: adds the new e-mail and leaves the old one, which nobody reads."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

for path in steps.CARDS:
    steps.card(path)
    text = steps.calendars.get(path)
    both = "EMAIL;TYPE=WORK:elena@studio-rossi.example\nEMAIL;TYPE=WORK:elena@rossi.example"
    steps.calendars.put(path, steps.office.set_line(text, "EMAIL", both))
steps.visit()
steps.done()
