"""Reference: status, resolution and time in one change, as the person it is assigned to."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

case = desk.INPUTS["case"]
tracker = desk.Tracker()
tracker.change("issue", case, status="closed", resolution="fixed", closed=".")
desk.answer(case=case, resolution="fixed")
