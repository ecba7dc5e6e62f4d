"""Faulty: writes the database file, so that the history knows of nothing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

issue, to = desk.INPUTS["issue"], desk.INPUTS["to"]
tracker = desk.Tracker()
comment = tracker.comment(
    issue, "I am away from Monday. Mara Lindt takes over; the drum arrives next week."
)
with desk.database() as db:
    db.execute("UPDATE _issue SET _assignee = ? WHERE id = ?", (tracker.user(to), issue))
db.close()
desk.answer(issue=issue, assignee=to, comment=comment)
