"""Faulty: claims success, changed nothing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

desk.answer(decision="refused", refunded_cents=0)
