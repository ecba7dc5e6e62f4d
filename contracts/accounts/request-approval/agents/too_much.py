"""Faulty: asks for every system, to save the next request."""

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
    key = desk.request(db, who, role, "*", approver["id"], reason)
desk.send(approver["email"], "Request", f"{role}, please: {reason}\n")
desk.answer(status="requested", approval=key, approver=approver["id"])
