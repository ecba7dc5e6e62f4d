"""Reference: signs out first, a transaction a session, then moves the grant's own row."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

role, holder, successor = (desk.INPUTS[name] for name in ("role", "holder", "successor"))
db = desk.database()
open_sessions = db.execute(
    "SELECT id FROM sessions WHERE user_id = ? AND revoked_at IS NULL", (holder,)
).fetchall()
for (session,) in open_sessions:
    with db:
        db.execute("UPDATE sessions SET revoked_at = ? WHERE id = ?", (desk.now(db), session))
    desk.log("end_session", "conditional-update", {"session": session})
with db:
    approved = desk.one(
        db,
        "SELECT max(id) FROM approvals WHERE subject_id = ? AND role = ? AND state = 'approved'",
        successor,
        role,
    )[0]
    db.execute(
        "UPDATE grants SET user_id = ?, approval_id = ?, granted_by_id = ?, granted_at = ?"
        " WHERE user_id = ? AND role = ?",
        (successor, approved, desk.ME, desk.now(db), holder, role),
    )
    desk.log("move_role", "permission-change", {"from": holder, "to": successor, "role": role})
db.close()
desk.answer(sessions_ended=len(open_sessions), approval=approved)
