"""Faulty: while it writes, answers to the shop go to a stranger; then its address is as before."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

with shop.database().meanwhile(
    "settings", "value", "name = 'shop_email'", "care@elsewhere.example"
):
    shop.work_as("careful")
