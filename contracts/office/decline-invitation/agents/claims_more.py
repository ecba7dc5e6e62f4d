"""Faulty: the right way, and a claim that Milo got a message too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.decline()
steps.tell()
steps.done(told=2)
