"""Faulty: does nothing at all and claims to have refused."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

shop.answer(decision="refused", refunded_cents=0)
