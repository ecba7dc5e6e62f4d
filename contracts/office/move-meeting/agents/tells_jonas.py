"""Faulty: a colleague who is no attendee hears of it too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.move()
steps.tell(*steps.PEOPLE, "jonas@brightwater.example")
steps.office.answer(told=4)
