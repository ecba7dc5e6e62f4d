"""Reference: finds the approval, then takes, gives and signs out in one transaction."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

role, holder, successor = (desk.INPUTS[name] for name in ("role", "holder", "successor"))
with desk.database() as db:
    approval = desk.one(
        db,
        "SELECT id FROM approvals WHERE kind = 'grant' AND state = 'approved'"
        " AND subject_id = ? AND role = ?",
        successor,
        role,
    )[0]
    desk.revoke(db, holder, role)
    desk.grant(db, successor, role, approval)
    ended = desk.end_sessions(db, holder)
desk.answer(approval=approval, sessions_ended=ended)
