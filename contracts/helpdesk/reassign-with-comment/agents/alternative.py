"""Reference: explains first, then patches the one attribute."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

issue, to = desk.INPUTS["issue"], desk.INPUTS["to"]
tracker = desk.Tracker()
comment = tracker.comment(issue, "Handing this over while I am away, with the order of the drum.")
tracker.assign(issue, tracker.user(to))
desk.answer(issue=issue, assignee=to, comment=comment)
