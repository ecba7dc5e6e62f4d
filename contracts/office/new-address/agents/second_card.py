"""Faulty: a second card of hers instead of the first one changed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

for path in steps.CARDS:
    steps.card(path)
text = steps.calendars.get(steps.CARDS[0]).replace("UID:elena-rossi@", "UID:elena-rossi-2@")
steps.calendars.put("/dana/contacts/elena-rossi-2.vcf", text)
steps.visit()
steps.done()
