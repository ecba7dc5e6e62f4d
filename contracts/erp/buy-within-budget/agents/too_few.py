"""As many as 500 EUR buy."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, order, product, told

erp = Erp()
goods = product(erp, INPUTS["product"])
purchase = order(erp, "Paperworks Rhine", goods, (160, "3.10"))
answer(**told(erp, purchase))
