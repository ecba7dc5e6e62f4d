"""Faulty: thanks her, to the address that is no more."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

for path in steps.CARDS:
    steps.card(path)
steps.visit()
steps.office.send(steps.office.letter("elena@rossi.example", "Thank you", "Noted.\n"))
steps.done()
