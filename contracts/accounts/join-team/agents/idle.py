"""Faulty: claims to have done it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

with desk.database() as db:
    desk.one(db, "SELECT id FROM teams WHERE id = 401")
desk.answer(team=401)
