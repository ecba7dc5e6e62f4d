"""Faulty: while it works, another department has far more seats than it bought."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

with desk.database().meanwhile("departments", "seats", "id = 2", 100000):
    desk.work_as("careful")
