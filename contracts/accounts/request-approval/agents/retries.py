"""Faulty: a timeout after the request was stored; asks again."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

who, role, system, reason = (desk.INPUTS[name] for name in ("user", "role", "system", "reason"))
head_of = (
    "SELECT d.head_id FROM resources r JOIN departments d ON d.id = r.department_id"
    " WHERE r.name = ?"
)
key = 0
db = desk.database()
approver = desk.user(db, desk.one(db, head_of, system)[0])
for attempt in (1, 2):
    with db:
        key = desk.request(db, who, role, system, approver["id"], reason)
    if attempt == 1:
        desk.log("request", "reversible-update", {"subject": who}, error="timeout", attempt=attempt)
db.close()
desk.send(approver["email"], "Request", f"{role} on {system}, please: {reason}\n")
desk.answer(status="requested", approval=key, approver=approver["id"])
