"""Claims what would be right, and does nothing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import answer

answer(number="E0008")
