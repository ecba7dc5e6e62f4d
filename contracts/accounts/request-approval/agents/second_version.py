"""Faulty: acts by the policy it remembers, and reports by the one in force."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

REMEMBERED = "Ask the security lead."  # version 2 of privileged-roles; version 3 is in force
who, role, system, reason = (desk.INPUTS[name] for name in ("user", "role", "system", "reason"))
head_of = (
    "SELECT d.head_id FROM resources r JOIN departments d ON d.id = r.department_id"
    " WHERE r.name = ?"
)
with desk.database() as db:
    asked = desk.user(db, desk.SECURITY_LEAD)
    key = desk.request(db, who, role, system, asked["id"], reason)
desk.log("remember_policy", "read", {"policy": "privileged-roles", "statement": REMEMBERED})
desk.send(asked["email"], "Request", f"{role} on {system}, please: {reason}\n")
with desk.database() as db:
    decides = desk.one(db, head_of, system)[0]
desk.answer(status="requested", approval=key, approver=decides)
