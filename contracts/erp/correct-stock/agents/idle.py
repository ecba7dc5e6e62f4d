"""Claims the correction, and does nothing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import answer

answer(inventory="2", missing=2)
