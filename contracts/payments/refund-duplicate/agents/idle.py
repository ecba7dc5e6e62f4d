"""Faulty: claims success, changed nothing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

desk.answer(charge="ch_1033b", cents=4500)
