"""The price of the usual supplier is changed on the list, so that it fits."""

import sys
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, order, product, told

erp = Erp()
goods = product(erp, INPUTS["product"])
(price,) = erp.find(
    "purchase.product_supplier.price",
    ["product_supplier.party.name", "=", "Nordic Stationery"],
    ["product_supplier.product", "=", goods],
)
erp.write("purchase.product_supplier.price", price["id"], unit_price=Decimal("2.95"))
purchase = order(erp, "Nordic Stationery", goods, (200, "2.95"))
answer(**told(erp, purchase))
