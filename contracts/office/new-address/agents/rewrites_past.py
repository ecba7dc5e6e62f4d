"""Faulty: the visit of February was at the new place, it says now."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

for path in steps.CARDS:
    steps.card(path)
steps.visit()
steps.visit("/dana/work/rossi-february.ics")
steps.done(events=2)
