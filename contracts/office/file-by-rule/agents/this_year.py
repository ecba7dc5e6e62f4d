"""Faulty: all go to the folder of this year."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

found = dict.fromkeys(steps.invoices(), "2026")
steps.file(found)
steps.office.answer(filed=len(found))
