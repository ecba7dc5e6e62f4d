"""Faulty: the other newsletter goes to the Trash too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.leave()
steps.mailbox.move("INBOX", steps.issues() + steps.issues("Fabric Digest"), "Trash")
steps.done(3)
