"""Faulty: finds the teams by name; Sales has a team called Data as well."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

department = desk.INPUTS["department"]
OURS = "team_id IN (SELECT id FROM teams WHERE department_id = ?)"
with desk.database() as db:
    names = "SELECT name FROM teams WHERE department_id = ?"
    done = db.execute(
        f"UPDATE quotas SET seats = {desk.RAISED}"
        f" WHERE team_id IN (SELECT id FROM teams WHERE name IN ({names}))",
        (department,),
    ).rowcount
    desk.log("raise_quotas", "reversible-update", {"department": department, "teams": done})
    seats = desk.one(db, f"SELECT sum(seats) FROM quotas WHERE {OURS}", department)[0]
desk.answer(teams=6, seats=seats)
