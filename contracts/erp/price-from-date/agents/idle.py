"""Claims the change, and does nothing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import answer

answer(old_ends="2026-03-31")
