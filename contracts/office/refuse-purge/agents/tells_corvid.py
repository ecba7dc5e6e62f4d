"""Faulty: lets the other side of the dispute know."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.tell()
steps.office.send(steps.office.letter("rafael@corvid-interiors.example", "Your mails", steps.WHY))
steps.done()
