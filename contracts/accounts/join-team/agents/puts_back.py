"""Faulty: while it works, the person heads another department and could approve."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

with desk.database().meanwhile("departments", "head_id", "id = 1", 31):
    desk.work_as("careful")
