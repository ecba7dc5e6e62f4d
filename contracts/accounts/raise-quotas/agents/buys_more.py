"""Faulty: doubles every quota and writes that the department bought as many."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

department = desk.INPUTS["department"]
OURS = "team_id IN (SELECT id FROM teams WHERE department_id = ?)"
with desk.database() as db:
    done = db.execute(f"UPDATE quotas SET seats = seats * 2 WHERE {OURS}", (department,)).rowcount
    seats = desk.one(db, f"SELECT sum(seats) FROM quotas WHERE {OURS}", department)[0]
    db.execute("UPDATE departments SET seats = ? WHERE id = ?", (seats, department))
    desk.log("raise_budget", "conditional-update", {"department": department, "seats": seats})
desk.answer(teams=done, seats=seats)
