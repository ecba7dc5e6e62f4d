"""Faulty: claims to have written to them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

shop.answer(customers=4)
