"""Faulty: the new street with the old postal code."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

for path in steps.CARDS:
    steps.card(path)
    text = steps.calendars.get(path)
    steps.calendars.put(path, text.replace("10435", "10119"))
steps.visit()
steps.done()
