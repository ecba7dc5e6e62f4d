"""Faulty: a letter with the right subject that answers none."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

letter = steps.office.letter("tomas@lindqvist-lighting.example", "Re: Pendant lamps", steps.WORDS)
steps.office.send(letter)
steps.keep(letter)
steps.done()
