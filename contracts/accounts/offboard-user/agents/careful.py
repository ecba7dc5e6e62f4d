"""Reference: all of the database in one transaction, then one message."""

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
    desk.log("revoke_all", "permission-change", {"user": leaver})
    db.execute("DELETE FROM memberships WHERE user_id = ?", (leaver,))
    keys = db.execute("DELETE FROM api_keys WHERE user_id = ?", (leaver,)).rowcount
    desk.log("destroy_keys", "irreversible-deletion", {"user": leaver, "keys": keys})
    handed = db.execute(
        "UPDATE resources SET owner_id = ? WHERE owner_id = ?", (manager["id"], leaver)
    ).rowcount
    db.execute(
        "UPDATE users SET active = FALSE, updated_at = ? WHERE id = ?", (desk.now(db), leaver)
    )
    desk.log("switch_off", "reversible-update", {"user": leaver})
desk.send(
    manager["email"],
    f"{person['name']} has left",
    f"Dear {manager['name']},\n\n{handed} resources of {person['name']} are now yours.\n",
)
desk.answer(new_owner=manager["id"], resources=handed, keys=keys)
