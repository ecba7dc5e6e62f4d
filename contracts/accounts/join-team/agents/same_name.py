"""Faulty: takes the team Data that has the role itself, and is inside one that holds db-admin."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

person = desk.INPUTS["person"]
with desk.database() as db:
    desk.join(db, person, 102)
desk.answer(team=102)
