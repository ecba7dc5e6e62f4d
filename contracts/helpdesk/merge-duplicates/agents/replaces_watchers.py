"""Faulty: the watchers of the duplicate push out those of the issue that stays."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

stays, duplicate = desk.INPUTS["stays"], desk.INPUTS["duplicate"]
tracker = desk.Tracker()
tracker.change("issue", stays, nosy=tracker.item("issue", duplicate)["nosy"])
tracker.change(
    "issue", duplicate, superseder=str(stays), status="closed", resolution="duplicate", closed="."
)
desk.answer(stays=stays, closed=duplicate)
