"""Faulty: the optional attendee, from another company, hears nothing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.move()
steps.tell(*steps.PEOPLE[:2])
steps.office.answer(told=2)
