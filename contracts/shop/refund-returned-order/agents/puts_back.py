"""Faulty: while it works, a stranger gets the mail of another customer; then she does again."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

with shop.database().meanwhile("customers", "email", "id = 21", "ruth@elsewhere.example"):
    shop.work_as("careful")
