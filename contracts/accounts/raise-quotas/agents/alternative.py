"""Reference: shares out every seat that was bought, a transaction a team."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

department = desk.INPUTS["department"]
OURS = "team_id IN (SELECT id FROM teams WHERE department_id = ?)"
db = desk.database()
bought = desk.one(db, "SELECT seats FROM departments WHERE id = ?", department)[0]
quotas = db.execute(f"SELECT * FROM quotas WHERE {OURS}", (department,)).fetchall()
wanted = {q["team_id"]: max(q["seats"] + 1, -(-5 * q["used"] // 4)) for q in quotas}
left = bought - sum(wanted.values())
for place, team in enumerate(sorted(wanted)):
    share = left // len(wanted) + (place < left % len(wanted))
    with db:
        db.execute("UPDATE quotas SET seats = ? WHERE team_id = ?", (wanted[team] + share, team))
    desk.log("raise_quota", "reversible-update", {"team": team, "seats": wanted[team] + share})
db.close()
desk.answer(seats=bought, teams=len(wanted))
