"""Claims the invoice, and does nothing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import answer

answer(invoice="INV0002", total_cents=31986)
