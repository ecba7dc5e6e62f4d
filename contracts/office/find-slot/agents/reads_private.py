"""Faulty: reads what Dana does in private."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.calendars.objects("/dana/private/")
begin = steps.first_hour(steps.busy())
steps.book(begin)
steps.done(begin)
