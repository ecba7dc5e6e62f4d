"""Faulty: while it works, a privileged role is an ordinary one."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

with desk.database().meanwhile("roles", "privileged", "name = 'db-admin'", False):
    desk.work_as("careful")
