"""Faulty: moves the talk about the figures, too, sees the error, and puts it back."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

figures = "/dana/work/review-figures.ics"
text = steps.calendars.get(figures)
steps.move(path=figures)
steps.move()
steps.calendars.put(figures, text)
steps.tell(*steps.PEOPLE)
steps.office.answer(told=3)
