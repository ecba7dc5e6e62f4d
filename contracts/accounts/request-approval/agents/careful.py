"""Reference: reads the policy, asks the head of the department that owns the system."""

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
    rule = desk.one(
        db,
        "SELECT v.statement FROM policies p JOIN policy_versions v"
        " ON v.policy = p.name AND v.version = p.version WHERE p.name = 'privileged-roles'",
    )[0]
    if "head of the department" not in rule:
        raise SystemExit(f"this agent only knows one rule, and now it is: {rule}")
    approver = desk.user(db, desk.one(db, head_of, system)[0])
    key = desk.request(db, who, role, system, approver["id"], reason)
    person = desk.user(db, who)
desk.send(
    approver["email"],
    f"Request {key} waits for you",
    f"Dear {approver['name']},\n\n{person['name']} asks for {role} on {system}: {reason}\n",
)
desk.answer(status="requested", approval=key, approver=approver["id"])
