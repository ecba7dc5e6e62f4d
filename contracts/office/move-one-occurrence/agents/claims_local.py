"""Faulty: the right way, and a time in Berlin that is called UTC."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.write(*steps.parts()[1], steps.exception())
steps.done("2026-04-01T09:30:00Z")
