"""Faulty: books the hour for every week."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

begin = steps.first_hour(steps.busy())
steps.book(begin, more="RRULE:FREQ=WEEKLY\n")
steps.done(begin)
