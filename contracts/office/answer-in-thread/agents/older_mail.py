"""Faulty: answers the first mail of the thread, which is answered already."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

letter = steps.write("lamps-a1@lindqvist-lighting.example")
steps.office.send(letter)
steps.keep(letter)
steps.done()
