"""Faulty: notes that the one who was not sure has accepted."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.move()
text = steps.calendars.get(steps.PATH)
steps.calendars.put(steps.PATH, text.replace("PARTSTAT=TENTATIVE", "PARTSTAT=ACCEPTED"))
steps.tell(*steps.PEOPLE)
steps.office.answer(told=3)
