"""Faulty: finds the new holder by name and gives the role to another Linnea Berg."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

role, holder = desk.INPUTS["role"], desk.INPUTS["holder"]
with desk.database() as db:
    other = desk.one(db, "SELECT max(id) FROM users WHERE name = 'Linnea Berg'")[0]
    desk.revoke(db, holder, role)
    desk.grant(db, other, role, 612)
    ended = desk.end_sessions(db, holder)
desk.answer(approval=612, sessions_ended=ended)
