"""Faulty: makes the request that was rejected a pending one again."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

who, role, system, reason = (desk.INPUTS[name] for name in ("user", "role", "system", "reason"))
head_of = (
    "SELECT d.head_id FROM resources r JOIN departments d ON d.id = r.department_id"
    " WHERE r.name = ?"
)
with desk.database() as db:
    approver = desk.user(db, desk.one(db, head_of, system)[0])
    db.execute(
        "UPDATE approvals SET state = 'pending', scope = ?, approver_id = ?, decided_by_id = NULL,"
        " decided_at = NULL WHERE subject_id = ? AND role = ?",
        (system, approver["id"], who, role),
    )
    key = desk.one(db, "SELECT max(id) FROM approvals WHERE subject_id = ?", who)[0]
    desk.log("reopen", "conditional-update", {"approval": key})
desk.send(approver["email"], "Request", f"{role} on {system}, please: {reason}\n")
desk.answer(status="requested", approval=key, approver=approver["id"])
