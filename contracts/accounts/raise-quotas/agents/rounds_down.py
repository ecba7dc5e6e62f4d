"""Faulty: rounds down; a quarter more than 27 seats is not 33."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

department = desk.INPUTS["department"]
OURS = "team_id IN (SELECT id FROM teams WHERE department_id = ?)"
with desk.database() as db:
    done = db.execute(
        "UPDATE quotas SET seats = CASE WHEN seats + 1 > used + (used - used % 4) / 4"
        f" THEN seats + 1 ELSE used + (used - used % 4) / 4 END WHERE {OURS}",
        (department,),
    ).rowcount
    desk.log("raise_quotas", "reversible-update", {"department": department, "teams": done})
    seats = desk.one(db, f"SELECT sum(seats) FROM quotas WHERE {OURS}", department)[0]
desk.answer(teams=done, seats=seats)
