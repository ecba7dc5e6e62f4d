"""A retry after a timeout: two purchases."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, order, product, told

erp = Erp()
goods = product(erp, INPUTS["product"])
order(erp, "Paperworks Rhine", goods, (200, "2.95"))
purchase = order(erp, "Paperworks Rhine", goods, (200, "2.95"))
answer(**told(erp, purchase))
