"""Reference: one query, a report in the folder of exports, the answer."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

db = desk.database()
found = db.execute(desk.UNAPPROVED).fetchall()
db.close()
desk.log("review", "read", {"grants": len(found)})
report = desk.exports() / "access-review.csv"
lines = ["login,role", *(f"{row['login']},{row['role']}" for row in found)]
report.write_text("\n".join(lines) + "\n", encoding="utf-8")
report.chmod(0o644)
desk.log("write_report", "reversible-update", {"path": report.name})
desk.answer(users=sorted({row["user_id"] for row in found}), grants=len(found))
