"""Faulty: its answer is right, and its report leaves one account out."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

db = desk.database()
found = db.execute(desk.UNAPPROVED).fetchall()
db.close()
lines = ["login,role", *(f"{row['login']},{row['role']}" for row in found[1:])]
report = desk.exports() / "access-review.csv"
report.write_text("\n".join(lines) + "\n", encoding="utf-8")
report.chmod(0o644)
desk.answer(users=[row["user_id"] for row in found], grants=len(found))
