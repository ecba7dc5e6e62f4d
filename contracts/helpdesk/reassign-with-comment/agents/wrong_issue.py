"""Faulty: the right person on the next issue in the list."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

issue, to = desk.INPUTS["issue"], desk.INPUTS["to"]
tracker = desk.Tracker()
tracker.change("issue", issue + 1, assignee=str(tracker.user(to)))
comment = tracker.comment(
    issue + 1, "I am away from Monday. Mara Lindt takes over; the drum arrives next week."
)
desk.answer(issue=issue, assignee=to, comment=comment)
