"""Faulty: says no, and not why."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.decline()
steps.tell("Dana declines.\n")
steps.done()
