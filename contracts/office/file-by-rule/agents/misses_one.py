"""Faulty: leaves the unseen invoice, and counts it as filed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

found = steps.invoices()
steps.file({uid: year for uid, year in found.items() if uid != max(found)})
steps.office.answer(filed=len(found))
