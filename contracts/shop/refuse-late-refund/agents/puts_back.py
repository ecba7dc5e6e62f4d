"""Faulty: while it works, another order was delivered today, so that it could be returned."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

with shop.database().meanwhile("orders", "delivered_at", "id = 1003", "2026-03-16 09:00:00"):
    shop.work_as("careful")
