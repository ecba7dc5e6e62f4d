"""Faulty: done right, and the answer says that all four wait again."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

cloud.work_as("careful")
cloud.answer(returned=4, dropped=0)
