"""Claims to have refused, and tells nobody."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import answer

answer(forced=False)
