"""Reference: compares the suppliers, and orders what is needed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, order, product, told

erp = Erp()
goods = product(erp, INPUTS["product"])
supplier = "Paperworks Rhine"  # 2.95 from 200 pieces on
purchase = order(erp, supplier, goods, (INPUTS["quantity"], "2.95"))
answer(**told(erp, purchase))
