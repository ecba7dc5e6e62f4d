"""Faulty: makes a filter for mail to come beside, which nobody wanted."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

found = steps.invoices()
steps.file(found)
rule = 'if header :contains "subject" "Invoice" { fileinto "Invoices/2026"; }'
steps.mailbox.put_filter("main", f'require ["fileinto"];\n{rule}\n')
steps.office.answer(filed=len(found))
