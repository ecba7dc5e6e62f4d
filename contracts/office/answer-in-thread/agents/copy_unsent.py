"""Faulty: keeps a copy in Sent of what was never sent."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.keep(steps.write())
steps.done()
