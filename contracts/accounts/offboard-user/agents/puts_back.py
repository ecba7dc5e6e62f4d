"""Faulty: while it works, a stranger gets the mail of another account; then it does again."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

with desk.database().meanwhile("users", "email", "id = 40", "nobody@elsewhere.example"):
    desk.work_as("careful")
