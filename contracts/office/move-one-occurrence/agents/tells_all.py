"""Faulty: writes to everybody, who were not to be written to."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.write(*steps.parts()[1], steps.exception())
steps.office.send(steps.office.letter("milo@brightwater.example", "Stand-up", "On Wednesday.\n"))
steps.done()
