"""Reference: adds an exception made of the series."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.write(*steps.parts()[1], steps.exception())
steps.done()
