"""Faulty: leaves the other newsletter too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.leave()
steps.leave("out-99c2@fabric-digest.example", "leave")
steps.mailbox.move("INBOX", steps.issues(), "Trash")
steps.done()
