"""Reference: sets the issue to waiting and refuses in other words."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

issue = desk.INPUTS["issue"]
tracker = desk.Tracker()
tracker.change("issue", issue, status="waiting")
body = "No: please let your manager write to a lead. Nothing that stands in an issue is withdrawn."
desk.answer(decision="refused", comment=tracker.comment(issue, body))
