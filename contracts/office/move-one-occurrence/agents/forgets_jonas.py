"""Faulty: one attendee of the series is none of the meeting."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

made = "\n".join(line for line in steps.exception().split("\n") if "jonas" not in line)
steps.write(*steps.parts()[1], made)
steps.done()
