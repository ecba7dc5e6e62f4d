"""Faulty: deletes all that comes from Corvid, and what went to them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

count = 0
for folder in ("INBOX", "Sent", "Archive/2025"):
    found = steps.corvid(folder)
    steps.mailbox.delete(folder, found)
    count += len(found)
steps.tell("Done, all of it.\n")
steps.done("done", count)
