"""Faulty: declines for Milo too, who had accepted."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.decline()
steps.decline(who="Milo Brandt")
steps.tell()
steps.done()
