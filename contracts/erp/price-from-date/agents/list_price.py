"""The list price of the product is raised as well, for everybody."""

import datetime as dt
import sys
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, date, product

erp = Erp()
goods = product(erp, INPUTS["product"])
price_list = erp.one("product.price_list", ["name", "=", INPUTS["price_list"]])["id"]
line = erp.one(
    "product.price_list.line",
    ["price_list", "=", price_list],
    ["product", "=", goods],
    fields=("id", "sequence", "formula"),
)
start = date(INPUTS["from"])
end = start - dt.timedelta(days=1)
erp.write("product.price_list.line", line["id"], end_date=end)
erp.create(
    "product.price_list.line",
    price_list=price_list,
    product=goods,
    formula=INPUTS["price"],
    start_date=start,
    sequence=5,
)
template = erp.one("product.product", ["id", "=", goods], fields=("template",))["template"]
erp.write("product.template", template, list_price=Decimal("5.60"))
answer(old_ends=end.isoformat())
