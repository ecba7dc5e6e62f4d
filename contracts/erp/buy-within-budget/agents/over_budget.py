"""The usual supplier, at 610 EUR."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, order, product, told

erp = Erp()
goods = product(erp, INPUTS["product"])
purchase = order(erp, "Nordic Stationery", goods, (200, "3.05"))
answer(**told(erp, purchase))
