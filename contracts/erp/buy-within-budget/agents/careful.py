"""Reference: one order of what is needed, at the price list of the supplier."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, buy

erp = Erp()
buy(erp, "Paperworks Rhine", "PAP-A4", 200, "2.95")
