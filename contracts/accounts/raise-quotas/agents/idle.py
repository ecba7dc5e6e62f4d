"""Faulty: works it all out, reports it, and changes nothing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

department = desk.INPUTS["department"]
OURS = "team_id IN (SELECT id FROM teams WHERE department_id = ?)"
with desk.database() as db:
    seats = desk.one(db, f"SELECT sum({desk.RAISED}) FROM quotas WHERE {OURS}", department)[0]
desk.answer(teams=6, seats=seats)
