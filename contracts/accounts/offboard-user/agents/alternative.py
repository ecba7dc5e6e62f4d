"""Reference: tells first, then a transaction a step in another order, row by row."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

leaver = desk.INPUTS["user"]
db = desk.database()
person = desk.user(db, leaver)
manager = desk.user(db, person["manager_id"])


def listed(column: str, table: str, owner: str = "user_id") -> list[object]:
    return [row[0] for row in db.execute(f"SELECT {column} FROM {table} WHERE {owner} = {leaver}")]


owned = listed("id", "resources", "owner_id")
names = ", ".join(map(str, listed("name", "resources", "owner_id")))
desk.send(manager["email"], "Now yours", f"From today you own {names}.\n")
for resource in owned:
    with db:
        db.execute("UPDATE resources SET owner_id = ? WHERE id = ?", (manager["id"], resource))
    desk.log("hand_over", "reversible-update", {"resource": resource, "to": manager["id"]})
with db:
    db.execute("UPDATE users SET active = FALSE WHERE id = ?", (leaver,))
keys = listed("id", "api_keys")
for key in keys:
    with db:
        db.execute("DELETE FROM api_keys WHERE id = ?", (key,))
    desk.log("destroy_key", "irreversible-deletion", {"key": key})
for team in listed("team_id", "memberships"):
    with db:
        db.execute("DELETE FROM memberships WHERE user_id = ? AND team_id = ?", (leaver, team))
    desk.log("leave_team", "reversible-update", {"team": team})
for role in listed("role", "grants"):
    with db:
        desk.revoke(db, leaver, str(role))
with db:
    desk.end_sessions(db, leaver)
db.close()
desk.answer(keys=len(keys), resources=len(owned), new_owner=manager["id"])
