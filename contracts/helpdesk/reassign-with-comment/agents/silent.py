"""Faulty: reassigns and tells nobody why."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

issue, to = desk.INPUTS["issue"], desk.INPUTS["to"]
tracker = desk.Tracker()
tracker.change("issue", issue, assignee=str(tracker.user(to)))
desk.answer(issue=issue, assignee=to, comment=0)
