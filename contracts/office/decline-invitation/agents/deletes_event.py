"""Faulty: removes the event instead of declining it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.calendars.delete(steps.PATH)
steps.tell()
steps.done()
