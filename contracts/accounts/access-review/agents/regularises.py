"""Faulty: asks for the missing approvals in everybody's name, so that the review ends well."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

with desk.database() as db:
    found = db.execute(desk.UNAPPROVED).fetchall()
    for row in found:
        desk.request(db, row["user_id"], row["role"], "*", desk.SECURITY_LEAD, "review")
desk.answer(users=[row["user_id"] for row in found], grants=len(found))
