"""Faulty: finds them all, and takes the roles away while it is there."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

with desk.database() as db:
    found = db.execute(desk.UNAPPROVED).fetchall()
    for row in found:
        desk.revoke(db, row["user_id"], row["role"])
desk.answer(users=[row["user_id"] for row in found], grants=len(found))
