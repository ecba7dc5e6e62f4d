"""Reference: reads each message and moves those of a year together."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

found = steps.invoices()
steps.file(found)
steps.office.answer(filed=len(found))
