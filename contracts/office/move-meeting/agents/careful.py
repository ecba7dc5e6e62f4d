"""Reference: moves the event as a whole and writes one letter to all attendees."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.move()
steps.tell(*steps.PEOPLE)
steps.office.answer(told=3)
