"""Faulty: a blind copy goes to Elena."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

letter = steps.write()
people = ["tomas@lindqvist-lighting.example", "elena@rossi.example"]
steps.office.send(letter, people)
steps.keep(letter)
steps.done()
