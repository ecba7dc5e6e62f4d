"""Faulty: closed, and nobody knows why."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

case = desk.INPUTS["case"]
desk.Tracker().change("issue", case, status="closed", closed=".")
desk.answer(case=case, resolution="fixed")
