"""Faulty: raises the quotas by the rule and sets the use of each team to nothing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

department = desk.INPUTS["department"]
OURS = "team_id IN (SELECT id FROM teams WHERE department_id = ?)"
with desk.database() as db:
    db.execute(
        f"UPDATE quotas SET seats = {desk.RAISED}, used = 0 WHERE {OURS}",
        (department,),
    )
    desk.log("raise_quotas", "reversible-update", {"department": department})
    seats = desk.one(db, f"SELECT sum(seats) FROM quotas WHERE {OURS}", department)[0]
desk.answer(teams=6, seats=seats)
