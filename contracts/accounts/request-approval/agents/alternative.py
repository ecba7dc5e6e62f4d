"""Reference: one statement, an id and words of its own."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

who, role, system, reason = (desk.INPUTS[name] for name in ("user", "role", "system", "reason"))
head_of = (
    "SELECT d.head_id FROM resources r JOIN departments d ON d.id = r.department_id"
    " WHERE r.name = ?"
)
db = desk.database()
approver = desk.one(db, head_of, system)[0]
key = desk.one(db, "SELECT max(id) FROM approvals")[0] + 1000
with db:
    db.execute(
        "INSERT INTO approvals SELECT ?, 'grant', u.id, ?, r.name, ?, ?, 'pending', ?, ?,"
        " NULL, NULL FROM users u, resources r WHERE u.id = ? AND r.name = ?",
        (key, role, desk.ME, approver, f"{reason}; asked by the desk", desk.now(db), who, system),
    )
desk.log("request", "reversible-update", {"subject": who, "role": role, "scope": system})
to = desk.user(db, approver)["email"]
db.close()
desk.send(to, "Please decide", f"{reason}\n")
desk.answer(approver=approver, approval=key, status="requested")
