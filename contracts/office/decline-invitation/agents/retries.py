"""Faulty: sends the answer again, because the server seemed slow."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.decline()
steps.tell()
steps.tell()
steps.done(told=2)
