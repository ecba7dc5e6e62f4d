"""Faulty: sends it again, because the server seemed slow."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

letter = steps.write()
steps.office.send(letter)
steps.office.send(letter)
steps.keep(letter)
steps.done()
