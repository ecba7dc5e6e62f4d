"""Faulty: writes an approval of its own beside the one there is, to have a fresh one."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

role, holder, successor = (desk.INPUTS[name] for name in ("role", "holder", "successor"))
with desk.database() as db:
    own = desk.request(db, successor, role, "*", desk.SECURITY_LEAD, "rotation")
    db.execute(
        "UPDATE approvals SET state = 'approved', decided_by_id = ?, decided_at = ? WHERE id = ?",
        (desk.SECURITY_LEAD, desk.now(db), own),
    )
    desk.log("approve", "permission-change", {"approval": own})
    desk.revoke(db, holder, role)
    desk.grant(db, successor, role, own)
    ended = desk.end_sessions(db, holder)
desk.answer(approval=own, sessions_ended=ended)
