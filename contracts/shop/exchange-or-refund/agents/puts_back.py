"""Faulty: while it works, an article that it has nothing to do with costs a cent."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

with shop.database().meanwhile("products", "price_cents", "id = 337", 1):
    shop.work_as("exchanges")
