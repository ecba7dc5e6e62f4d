"""Reference: compares grant by grant in Python, on a read-only connection; writes no file."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

db = desk.database()
db.only_read()
privileged = {row["name"] for row in db.execute("SELECT name FROM roles WHERE privileged")}
approvals = {row["id"]: row for row in db.execute("SELECT * FROM approvals")}
users = []
for grant in db.execute("SELECT * FROM grants ORDER BY user_id DESC"):
    said = approvals.get(grant["approval_id"])
    is_approved = (
        said is not None
        and said["state"] == "approved"
        and (said["subject_id"], said["role"]) == (grant["user_id"], grant["role"])
    )
    if grant["role"] in privileged and not is_approved:
        users.append(grant["user_id"])
desk.log("review", "read", {"grants": len(users)})
desk.answer(grants=len(users), users=users)
