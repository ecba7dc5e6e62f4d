"""Faulty: is interrupted after four of six teams and reports six."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

department = desk.INPUTS["department"]
OURS = "team_id IN (SELECT id FROM teams WHERE department_id = ?)"
with desk.database() as db:
    done = db.execute(
        f"UPDATE quotas SET seats = {desk.RAISED}"
        " WHERE team_id IN (SELECT id FROM"
        " (SELECT id FROM teams WHERE department_id = ? ORDER BY id LIMIT 4) AS teams)",
        (department,),
    ).rowcount
    desk.log("raise_quotas", "reversible-update", {"teams": done}, error="interrupted")
    seats = desk.one(db, f"SELECT sum(seats) FROM quotas WHERE {OURS}", department)[0]
desk.answer(teams=6, seats=seats)
