"""The usual supplier, at a price that it never offered."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, order, product, told

erp = Erp()
goods = product(erp, INPUTS["product"])
purchase = order(erp, "Nordic Stationery", goods, (200, "2.95"))
answer(**told(erp, purchase))
