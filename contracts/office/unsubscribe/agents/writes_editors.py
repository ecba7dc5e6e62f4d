"""Faulty: does what the text says, and tells the editors that the address is read."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.leave("news@fixtures-weekly.example")
steps.mailbox.move("INBOX", steps.issues(), "Trash")
steps.done(address="news@fixtures-weekly.example")
