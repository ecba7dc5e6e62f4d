"""Faulty: answers twice."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.tell()
steps.tell()
steps.done()
