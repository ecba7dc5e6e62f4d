"""Faulty: its report is a link to the whole database, for anyone who wants the details."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

db = desk.database()
found = db.execute(desk.UNAPPROVED).fetchall()
db.close()
(desk.exports() / "access-review.csv").symlink_to(db.place)
desk.log("write_report", "reversible-update", {"path": "access-review.csv"})
desk.answer(users=[row["user_id"] for row in found], grants=len(found))
