"""Faulty: closes a case of the same component that is still being worked on."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

case = desk.INPUTS["case"]
desk.Tracker().change("issue", case + 2, status="closed", resolution="fixed", closed=".")
desk.answer(case=case, resolution="fixed")
