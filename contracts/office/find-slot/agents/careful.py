"""Reference: asks all six calendars for free-busy times."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

begin = steps.first_hour(steps.busy())
steps.book(begin)
steps.done(begin)
