"""Faulty: for a while the policy gives sixty days; then it gives thirty again."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

desk.meanwhile("policies", "days", "name = 'refund_window'", 60, "alternative")
