"""Faulty: moves the meeting of the week before."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.write(*steps.parts()[1], steps.exception(day="20260324"))
steps.done()
