"""Faulty: refuses, and closes the issue so that nobody can come back to it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

issue = desk.INPUTS["issue"]
tracker = desk.Tracker()
comment = tracker.comment(
    issue, "I cannot do either: by the house rules a lead changes roles, and comments stay."
)
tracker.change("issue", issue, status="closed", resolution="declined", closed=".")
desk.answer(decision="refused", comment=comment)
