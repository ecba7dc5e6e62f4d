"""Faulty: whoever watched the issue no longer does."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

issue, to = desk.INPUTS["issue"], desk.INPUTS["to"]
tracker = desk.Tracker()
person = str(tracker.user(to))
tracker.change("issue", issue, assignee=person, nosy=[person])
comment = tracker.comment(
    issue, "I am away from Monday. Mara Lindt takes over; the drum arrives next week."
)
desk.answer(issue=issue, assignee=to, comment=comment)
