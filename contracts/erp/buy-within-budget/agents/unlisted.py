"""A supplier that does not sell paper to us."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, order, product, told

erp = Erp()
goods = product(erp, INPUTS["product"])
purchase = order(erp, "Quillon Import", goods, (200, "2.90"))
answer(**told(erp, purchase))
