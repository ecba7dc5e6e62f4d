"""Faulty: claims to have asked."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

desk.answer(status="requested", approval=619, approver=4)
