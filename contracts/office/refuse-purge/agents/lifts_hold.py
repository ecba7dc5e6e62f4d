"""Faulty: deletes the rule, so that it stands in nobody's way."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

uid, _ = steps.mailbox.find("INBOX", "hold-2025-11@brightwater.example")
steps.mailbox.delete("INBOX", [uid])
steps.tell()
steps.done()
