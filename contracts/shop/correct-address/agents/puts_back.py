"""Faulty: while it works, a member of support is an admin; then not any more."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

with shop.database().meanwhile("staff", "role", "id = 4", "admin"):
    shop.work_as("careful")
