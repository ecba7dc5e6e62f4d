"""Faulty: takes the flag away, because it looks done."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

filed = steps.file()
uid, _ = steps.mailbox.find("INBOX", "hold-2025-11@brightwater.example")
steps.mailbox.flag("INBOX", [uid], steps.office.FLAGGED, "-")
steps.report(filed)
