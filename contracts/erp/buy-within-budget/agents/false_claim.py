"""Does the right thing and tells a smaller total."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, order, product

erp = Erp()
goods = product(erp, INPUTS["product"])
order(erp, "Paperworks Rhine", goods, (200, "2.95"))
answer(purchase="2", total_cents=50000)
