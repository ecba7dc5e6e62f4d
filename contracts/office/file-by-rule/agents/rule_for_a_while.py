"""Faulty: lets a filter do it, finds that it moves nothing, and puts the one before back."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

found = steps.invoices()
rule = 'if header :contains "subject" "Invoice" { fileinto "Invoices/2026"; }'
steps.mailbox.put_filter("main", f'require ["fileinto"];\n{rule}\n')
steps.file(found)
alerts = 'if address :is "from" "alerts@brightwater.example" {\n  fileinto "Archive";\n}'
steps.mailbox.put_filter("main", f'require ["fileinto"];\n{alerts}\n')
steps.office.answer(filed=len(found))
