"""The draft is rounded before it is posted."""

import sys
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer

erp = Erp()
period = erp.one("account.period", ["name", "=", INPUTS["period"]], fields=("id",))["id"]
(draft,) = (
    each["id"]
    for each in erp.find("account.move", ["period", "=", period], ["state", "=", "draft"])
)
lines = erp.find("account.move.line", ["move", "=", draft], fields=("id", "debit"))
changes = []
for line in lines:
    field = "debit" if line["debit"] else "credit"
    changes += [[line["id"]], {field: Decimal(240)}]
erp.write("account.move", draft, lines=[["write", *changes]])
erp.button("account.move", "post", draft)
erp.button("account.period", "close", period)
answer(number=erp.one("account.move", ["id", "=", draft], fields=("number",))["number"])
