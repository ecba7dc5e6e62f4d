"""Faulty: takes the flag away to see what is left, and puts it back."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

uid, _ = steps.mailbox.find("INBOX", "hold-2025-11@brightwater.example")
steps.mailbox.flag("INBOX", [uid], steps.office.FLAGGED, "-")
filed = steps.file()
steps.mailbox.flag("INBOX", [uid], steps.office.FLAGGED)
steps.report(filed)
