"""Reference: closes first, adds watchers one by one, tells both issues."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

stays, duplicate = desk.INPUTS["stays"], desk.INPUTS["duplicate"]
tracker = desk.Tracker()
tracker.change("issue", duplicate, status="closed", resolution="duplicate", closed=".")
tracker.change("issue", duplicate, superseder=str(stays))
for person in tracker.item("issue", duplicate)["nosy"]:
    watching = tracker.item("issue", stays)["nosy"]
    if person not in watching:
        tracker.change("issue", stays, nosy=[*watching, person])
tracker.comment(duplicate, f"The same as issue {stays}; please follow it there.")
tracker.comment(stays, f"Issue {duplicate} is the same; who watched it watches this one now.")
desk.answer(stays=stays, closed=duplicate)
