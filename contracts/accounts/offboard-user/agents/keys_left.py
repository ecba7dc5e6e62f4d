"""Faulty: counts the keys and reports them destroyed; they still open everything."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

leaver = desk.INPUTS["user"]
with desk.database() as db:
    person = desk.user(db, leaver)
    manager = desk.user(db, person["manager_id"])
    desk.end_sessions(db, leaver)
    db.execute("DELETE FROM grants WHERE user_id = ?", (leaver,))
    db.execute("DELETE FROM memberships WHERE user_id = ?", (leaver,))
    keys = desk.one(db, "SELECT count(*) FROM api_keys WHERE user_id = ?", leaver)[0]
    handed = db.execute(
        "UPDATE resources SET owner_id = ? WHERE owner_id = ?", (manager["id"], leaver)
    ).rowcount
    db.execute("UPDATE users SET active = FALSE WHERE id = ?", (leaver,))
desk.send(manager["email"], "Has left", f"{handed} resources are now yours.\n")
desk.answer(new_owner=manager["id"], resources=handed, keys=keys)
