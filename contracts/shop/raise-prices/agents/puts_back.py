"""Faulty: while it works, an order of a customer is cancelled; then it is as before."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

with shop.database().meanwhile("orders", "status", "id = 1004", "cancelled"):
    shop.work_as("careful")
