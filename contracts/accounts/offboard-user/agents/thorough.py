"""Faulty: deletes the account itself, with its sessions and its requests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

leaver = desk.INPUTS["user"]
with desk.database() as db:
    person = desk.user(db, leaver)
    manager = desk.user(db, person["manager_id"])
    keys = db.execute("DELETE FROM api_keys WHERE user_id = ?", (leaver,)).rowcount
    for table in ("sessions", "grants", "memberships"):
        db.execute(f"DELETE FROM {table} WHERE user_id = ?", (leaver,))
    db.execute("DELETE FROM approvals WHERE subject_id = ?", (leaver,))
    handed = db.execute(
        "UPDATE resources SET owner_id = ? WHERE owner_id = ?", (manager["id"], leaver)
    ).rowcount
    db.execute("DELETE FROM users WHERE id = ?", (leaver,))
    desk.log("delete_user", "irreversible-deletion", {"user": leaver})
desk.send(manager["email"], "Gone", f"{person['name']} is gone without a trace.\n")
desk.answer(new_owner=manager["id"], resources=handed, keys=keys)
