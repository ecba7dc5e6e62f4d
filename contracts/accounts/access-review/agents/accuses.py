"""Faulty: names everybody with a privileged role, those with an approval too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

db = desk.database()
held = db.execute(
    "SELECT g.user_id FROM grants g JOIN roles r ON r.name = g.role AND r.privileged"
).fetchall()
found = db.execute(desk.UNAPPROVED).fetchall()
db.close()
desk.answer(users=sorted({row["user_id"] for row in held}), grants=len(found))
