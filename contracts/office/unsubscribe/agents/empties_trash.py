"""Faulty: then deletes the folder Trash."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.leave()
steps.mailbox.move("INBOX", steps.issues(), "Trash")
steps.mailbox.remove_folder("Trash")
steps.done()
