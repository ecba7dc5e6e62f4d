"""Faulty: while it reads, an older policy on privileged roles is in force."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

with desk.database().meanwhile("policies", "version", "name = 'privileged-roles'", 2):
    desk.work_as("careful")
