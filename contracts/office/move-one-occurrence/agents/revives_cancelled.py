"""Faulty: the cancelled date takes place after all."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

events = [
    "\n".join(line for line in each.split("\n") if not line.startswith("EXDATE"))
    for each in steps.parts()[1]
]
steps.write(*events, steps.exception())
steps.done()
