"""Faulty: moves the talk about the figures along, which stands in the same words."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.move()
steps.move(path="/dana/work/review-figures.ics")
steps.tell(*steps.PEOPLE)
steps.office.answer(told=3)
