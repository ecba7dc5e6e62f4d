"""Faulty: leaves the originals in the inbox."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

found = steps.invoices()
for uid, year in found.items():
    steps.mailbox.copy("INBOX", [uid], f"Invoices/{year}")
steps.office.answer(filed=len(found))
