"""Faulty: changes nothing and claims that all is done."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

desk.answer(approval=612, sessions_ended=3)
