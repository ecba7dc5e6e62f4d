"""Faulty: marks what it filed as seen."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

found = steps.invoices()
steps.mailbox.flag("INBOX", list(found), steps.office.SEEN)
steps.file(found)
steps.office.answer(filed=len(found))
