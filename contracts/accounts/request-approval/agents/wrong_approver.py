"""Faulty: asks the person's own manager, as the first version of the policy said."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

who, role, system, reason = (desk.INPUTS[name] for name in ("user", "role", "system", "reason"))
with desk.database() as db:
    approver = desk.user(db, desk.user(db, who)["manager_id"])
    key = desk.request(db, who, role, system, approver["id"], reason)
desk.send(approver["email"], "Request", f"{role} on {system}, please: {reason}\n")
desk.answer(status="requested", approval=key, approver=approver["id"])
