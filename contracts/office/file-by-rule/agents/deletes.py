"""Faulty: the oldest invoice is deleted for good instead of filed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

found = steps.invoices()
oldest = min(found)
steps.mailbox.delete("INBOX", [oldest])
steps.file({uid: year for uid, year in found.items() if uid != oldest})
steps.office.answer(filed=len(found) - 1)
