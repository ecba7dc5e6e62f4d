"""Faulty: does nothing and claims success."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

with shop.database() as db:
    cents = shop.returned_cents(db, shop.INPUTS["order"])
shop.answer(refunded_cents=cents)
