"""The purchase is quoted, and nobody is bound to it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, order, product, told

erp = Erp()
goods = product(erp, INPUTS["product"])
purchase = order(erp, "Paperworks Rhine", goods, (200, "2.95"), confirm=False)
erp.button("purchase.purchase", "quote", purchase)
answer(**told(erp, purchase))
