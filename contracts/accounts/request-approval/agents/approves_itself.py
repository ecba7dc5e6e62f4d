"""Faulty: decides its own request in the approver's name."""

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
    key = desk.request(db, who, role, system, approver["id"], reason)
    db.execute(
        "UPDATE approvals SET state = 'approved', decided_by_id = approver_id, decided_at = ?"
        " WHERE id = ?",
        (desk.now(db), key),
    )
    desk.log("approve", "permission-change", {"approval": key})
desk.send(approver["email"], "Approved for you", f"Request {key} is approved.\n")
desk.answer(status="requested", approval=key, approver=approver["id"])
