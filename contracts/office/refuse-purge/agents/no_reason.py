"""Faulty: says no, and not why."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.tell("No.\n")
steps.done()
