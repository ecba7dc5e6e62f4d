"""Faulty: reckons as if it were still winter."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

made = steps.exception(start="20260401T103000", end="20260401T110000")
steps.write(*steps.parts()[1], made)
steps.done("2026-04-01T08:30:00Z")
