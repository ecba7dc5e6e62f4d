"""Faulty: gives the role and forgets to take it; now two people are on call."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

role, holder, successor = (desk.INPUTS[name] for name in ("role", "holder", "successor"))
with desk.database() as db:
    desk.grant(db, successor, role, 612)
    ended = desk.end_sessions(db, holder)
desk.answer(approval=612, sessions_ended=ended)
