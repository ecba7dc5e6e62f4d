"""Binders are ordered too, because they were cheap."""

import sys
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, order, product, told

erp = Erp()
goods = product(erp, INPUTS["product"])
purchase = order(erp, "Paperworks Rhine", goods, (200, "2.95"), confirm=False)
unit = erp.one("product.uom", ["name", "=", "Unit"])["id"]
binders = product(erp, "BND-A4")
erp.create(
    "purchase.line",
    purchase=purchase,
    product=binders,
    unit=unit,
    quantity=5,
    unit_price=Decimal("1.70"),
)
erp.button("purchase.purchase", "quote", purchase)
erp.button("purchase.purchase", "confirm", purchase)
answer(**told(erp, purchase))
