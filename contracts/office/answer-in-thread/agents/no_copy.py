"""Faulty: keeps no copy."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.office.send(steps.write())
steps.mark()
steps.done()
