"""Faulty: the flagged message of the lawyer goes too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

filed = steps.file()
uid, _ = steps.mailbox.find("INBOX", "hold-2025-11@brightwater.example")
steps.mailbox.move("INBOX", [uid], "Archive/2025")
steps.report(filed + 1)
