"""Faulty: closes properly, then removes from the journal that the case had waited."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

case = desk.INPUTS["case"]
tracker = desk.Tracker()
tracker.change("issue", case, status="closed", resolution="fixed", closed=".")
with desk.database() as db:
    db.execute(
        "DELETE FROM issue__journal WHERE nodeid = ? AND date LIKE '2025%' AND action = 'set'"
        " AND params LIKE '%status%'",
        (case,),
    )
db.close()
desk.answer(case=case, resolution="fixed")
