"""Faulty: it did nothing, and says that it did."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

cloud.answer(keys=2, groups=2, policies=3)
