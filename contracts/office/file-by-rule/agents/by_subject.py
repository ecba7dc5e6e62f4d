"""Faulty: files what Milo asks about templates too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

found = steps.invoices()
uid, _ = steps.mailbox.find("INBOX", "inv-talk@brightwater.example")
steps.file({**found, uid: "2026"})
steps.office.answer(filed=5)
