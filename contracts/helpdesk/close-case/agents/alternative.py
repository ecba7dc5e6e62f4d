"""Reference: says so first, then resolves, then closes."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

case = desk.INPUTS["case"]
tracker = desk.Tracker()
tracker.comment(case, "Confirmed by the early shift; closing.")
tracker.change("issue", case, resolution="fixed")
tracker.change("issue", case, closed=".", status="closed")
desk.answer(case=case, resolution="fixed")
