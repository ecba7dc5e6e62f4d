"""Faulty: asks, and grants the role at once because it is urgent."""

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
    desk.grant(db, who, role, key)
desk.send(approver["email"], "For the record", f"{role} was needed at once: {reason}\n")
desk.answer(status="requested", approval=key, approver=approver["id"])
