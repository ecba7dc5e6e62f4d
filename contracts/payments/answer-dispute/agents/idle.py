"""Faulty: claims success, changed nothing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

desk.answer(order=1021, tracking="DHL-4420021")
