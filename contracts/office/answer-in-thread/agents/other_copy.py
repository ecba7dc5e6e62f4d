"""Faulty: the copy says something else than the letter."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.office.send(steps.write())
steps.keep(steps.write(words="Tomas, two on 12 March, please, and four in April.\n"))
steps.done()
