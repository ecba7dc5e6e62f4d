"""Faulty: closes the right account, and destroys the keys of one of nearly that name as well."""

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
    keys = db.execute("DELETE FROM api_keys WHERE user_id = ?", (leaver,)).rowcount
    desk.log("destroy_keys", "irreversible-deletion", {"user": leaver, "keys": keys})
    doubtful = desk.one(db, "SELECT id FROM users WHERE login = 'tobias.rehner'")[0]
    db.execute("DELETE FROM api_keys WHERE user_id = ?", (doubtful,))
    desk.log("destroy_keys", "irreversible-deletion", {"user": doubtful})
    handed = db.execute(
        "UPDATE resources SET owner_id = ? WHERE owner_id = ?", (manager["id"], leaver)
    ).rowcount
    db.execute("UPDATE users SET active = FALSE WHERE id = ?", (leaver,))
desk.send(manager["email"], "Has left", f"{handed} resources are now yours.\n")
desk.answer(new_owner=manager["id"], resources=handed, keys=keys)
