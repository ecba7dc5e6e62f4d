"""Reference: unites the watchers, then closes the duplicate and points it to what stays."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

stays, duplicate = desk.INPUTS["stays"], desk.INPUTS["duplicate"]
tracker = desk.Tracker()
watching = [tracker.item("issue", each)["nosy"] for each in (stays, duplicate)]
tracker.change("issue", stays, nosy=sorted({*watching[0], *watching[1]}))
tracker.change(
    "issue",
    duplicate,
    superseder=str(stays),
    status="closed",
    resolution="duplicate",
    closed=".",
)
desk.answer(stays=stays, closed=duplicate)
