"""Faulty: writes that Dana comes, and tells Priya that she does not."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.decline("ACCEPTED")
steps.tell()
steps.done()
