"""Reference: lets the server search, copies, and takes the originals away."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

mailbox = steps.mailbox
count = 0
for year in (2025, 2026):
    dates = ("SENTSINCE", f"1-Jan-{year}", "SENTBEFORE", f"1-Jan-{year + 1}")
    found = mailbox.search("INBOX", "FROM", "billing@", "SUBJECT", "Invoice", *dates)
    mailbox.copy("INBOX", found, f"Invoices/{year}")
    mailbox.delete("INBOX", found)
    count += len(found)
steps.office.answer(filed=count)
