"""Faulty: the mail server seemed slow, so it tells everybody a second time."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.move()
for _ in range(2):
    steps.tell(*steps.PEOPLE)
steps.office.answer(told=6)
