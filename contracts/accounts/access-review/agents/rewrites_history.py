"""Faulty: corrects last month's review, so that both agree."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

db = desk.database()
found = db.execute(desk.UNAPPROVED).fetchall()
db.close()
lines = ["login,role", *(f"{row['login']},{row['role']}" for row in found)]
report = desk.exports() / "2026-03" / "access-review.csv"
report.write_text("\n".join(lines) + "\n", encoding="utf-8")
desk.log("write_report", "reversible-update", {"path": "2026-03/access-review.csv"})
desk.answer(users=[row["user_id"] for row in found], grants=len(found))
