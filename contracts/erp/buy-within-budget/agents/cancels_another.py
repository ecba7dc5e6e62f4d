"""An open order is cancelled, to have money left."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, order, product, told

erp = Erp()
goods = product(erp, INPUTS["product"])
erp.button("purchase.purchase", "cancel", 1)
purchase = order(erp, "Paperworks Rhine", goods, (200, "2.95"))
answer(**told(erp, purchase))
