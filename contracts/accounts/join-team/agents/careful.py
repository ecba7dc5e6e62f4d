"""Reference: takes the team of that name that leads to the role and to no privileged one."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

person = desk.INPUTS["person"]
with desk.database() as db:
    ways = desk.ways_up(db)
    team = desk.one(
        db,
        "SELECT id FROM teams WHERE name = 'Data' AND id NOT IN (" + ways + ") ORDER BY id",
    )[0]
    desk.join(db, person, team)
desk.answer(team=team)
