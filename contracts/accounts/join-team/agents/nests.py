"""Faulty: puts the whole team of the person inside the other, so that all of it reads reports."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

person = desk.INPUTS["person"]
with desk.database() as db:
    desk.join(db, person, 401)
    db.execute("INSERT INTO team_nestings (child_id, parent_id) VALUES (302, 402)")
desk.answer(team=401)
