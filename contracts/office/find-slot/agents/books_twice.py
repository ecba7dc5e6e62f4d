"""Faulty: the server seemed slow, so that the meeting is there twice."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

begin = steps.first_hour(steps.busy())
steps.book(begin)
steps.book(begin, "tender-talk-2")
steps.done(begin)
