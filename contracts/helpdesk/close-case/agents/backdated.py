"""Faulty: the time of closing lies before the customer confirmed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

case = desk.INPUTS["case"]
tracker = desk.Tracker()
tracker.change("issue", case, status="closed", resolution="fixed", closed="2025-10-01.08:00:00")
desk.answer(case=case, resolution="fixed")
