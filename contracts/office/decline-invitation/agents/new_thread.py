"""Faulty: writes a letter that answers none."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.decline()
steps.office.send(steps.office.letter("priya@brightwater.example", "Supplier day", steps.WHY))
steps.done()
