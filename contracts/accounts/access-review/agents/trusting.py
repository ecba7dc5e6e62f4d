"""Faulty: takes any number in approval_id for an approval; one of four is found."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

db = desk.database()
found = db.execute(
    "SELECT g.user_id FROM grants g JOIN roles r ON r.name = g.role AND r.privileged"
    " WHERE g.approval_id IS NULL"
).fetchall()
db.close()
desk.log("review", "read", {"grants": len(found)})
desk.answer(users=[row["user_id"] for row in found], grants=len(found))
