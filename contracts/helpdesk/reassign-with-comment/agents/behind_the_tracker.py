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
person = tracker.user(to)
desk.behind_the_tracker(
    "UPDATE _issue SET _assignee = ? WHERE id = ?",
    "UPDATE issues SET assigned_to_id = ? WHERE id = ?",
    person,
    issue,
)
desk.answer(issue=issue, assignee=to, comment=comment)
