"""Faulty: the deputy takes over instead, who audits the very same systems."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

AUDITOR = 36
role, holder = desk.INPUTS["role"], desk.INPUTS["holder"]
with desk.database() as db:
    desk.revoke(db, holder, role)
    desk.grant(db, AUDITOR, role, 614)
    ended = desk.end_sessions(db, holder)
desk.answer(approval=614, sessions_ended=ended)
