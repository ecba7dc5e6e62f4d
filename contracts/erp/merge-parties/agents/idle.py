"""Claims the merge, and does nothing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, answer

answer(stays=INPUTS["stays"], replaced=INPUTS["duplicate"])
