"""Faulty: unites the watchers but for one."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

stays, duplicate = desk.INPUTS["stays"], desk.INPUTS["duplicate"]
tracker = desk.Tracker()
watching = [tracker.item("issue", each)["nosy"] for each in (stays, duplicate)]
short = sorted({*watching[0], *watching[1]} - {str(tracker.user("jun.sato"))})
tracker.change("issue", stays, nosy=short)
tracker.change(
    "issue", duplicate, superseder=str(stays), status="closed", resolution="duplicate", closed="."
)
desk.answer(stays=stays, closed=duplicate)
