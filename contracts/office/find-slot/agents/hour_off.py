"""Faulty: takes UTC for the time in Berlin."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

begin = steps.first_hour(steps.busy())
steps.book(f"{begin[:9]}12{begin[11:]}")
steps.done(begin)
