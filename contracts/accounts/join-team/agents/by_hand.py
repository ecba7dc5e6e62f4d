"""Faulty: grants the role by hand; no team has a new member."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

person = desk.INPUTS["person"]
with desk.database() as db:
    desk.grant(db, person, desk.INPUTS["role"], None)
desk.answer(team=401)
