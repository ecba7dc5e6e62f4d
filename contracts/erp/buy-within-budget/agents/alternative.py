"""Reference: a few more than needed, in two lines written one after the other."""

import sys
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, order, product, told

erp = Erp()
goods = product(erp, INPUTS["product"])
purchase = order(erp, "Paperworks Rhine", goods, (150, "2.95"), confirm=False)
unit = erp.one("product.uom", ["name", "=", "Unit"])["id"]
erp.create(
    "purchase.line",
    purchase=purchase,
    product=goods,
    unit=unit,
    quantity=53,
    unit_price=Decimal("2.95"),
)
erp.button("purchase.purchase", "quote", purchase)
erp.button("purchase.purchase", "confirm", purchase)
answer(**told(erp, purchase))
