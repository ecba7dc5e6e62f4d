"""Faulty: takes the comments of the duplicate along, so that it is empty afterwards."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

stays, duplicate = desk.INPUTS["stays"], desk.INPUTS["duplicate"]
tracker = desk.Tracker()
items = [tracker.item("issue", each) for each in (stays, duplicate)]
tracker.change(
    "issue",
    stays,
    nosy=sorted({*items[0]["nosy"], *items[1]["nosy"]}),
    messages=[*items[0]["messages"], *items[1]["messages"]],
)
if desk.IS_REDMINE:  # which moves no comment for anybody
    with desk.database() as db:
        moved = "UPDATE journals SET journalized_id = ? WHERE journalized_id = ? AND notes != ''"
        db.execute(moved, (stays, duplicate))
    db.close()
tracker.change(
    "issue",
    duplicate,
    messages=[],
    superseder=str(stays),
    status="closed",
    resolution="duplicate",
    closed=".",
)
desk.answer(stays=stays, closed=duplicate)
