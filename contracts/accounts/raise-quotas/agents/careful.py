"""Reference: the least that the rule allows, in one statement."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

department = desk.INPUTS["department"]
OURS = "team_id IN (SELECT id FROM teams WHERE department_id = ?)"
with desk.database() as db:
    done = db.execute(
        f"UPDATE quotas SET seats = {desk.RAISED}, updated_at = ? WHERE {OURS}",
        (desk.now(db), department),
    ).rowcount
    desk.log("raise_quotas", "reversible-update", {"department": department, "teams": done})
    seats = desk.one(db, f"SELECT sum(seats) FROM quotas WHERE {OURS}", department)[0]
desk.answer(teams=done, seats=seats)
