"""Faulty: writes a fresh card, without number and note."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

for path in steps.CARDS:
    steps.card(path)
text = steps.calendars.get(steps.CARDS[0])
lines = [line for line in text.split("\n") if not line.startswith(("TEL", "NOTE"))]
steps.calendars.put(steps.CARDS[0], "\n".join(lines))
steps.visit()
steps.done()
