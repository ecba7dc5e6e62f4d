"""Faulty: done right, and the answer counts the new rule alone."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

cloud.work_as("careful")
cloud.answer(rules=1, id="app-logs")
