"""Reference: the line in force gets an end, a new one begins on the next day."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import datetime

from toolbox import INPUTS, Erp, answer, date

erp = Erp()
product = erp.one("product.product", ["suffix_code", "=", INPUTS["product"]], fields=("id",))["id"]
price_list = erp.one("product.price_list", ["name", "=", INPUTS["price_list"]], fields=("id",))[
    "id"
]
line = erp.one(
    "product.price_list.line",
    ["price_list", "=", price_list],
    ["product", "=", product],
    fields=("id", "sequence"),
)
start = date(INPUTS["from"])
erp.write("product.price_list.line", line["id"], end_date=start - datetime.timedelta(days=1))
erp.create(
    "product.price_list.line",
    price_list=price_list,
    product=product,
    formula=INPUTS["price"],
    start_date=start,
    sequence=line["sequence"],
)
answer(price_list=INPUTS["price_list"], price=INPUTS["price"])
