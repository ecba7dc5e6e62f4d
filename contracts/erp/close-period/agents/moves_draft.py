"""The draft goes to March, so that February can be closed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, date

erp = Erp()
period = erp.one("account.period", ["name", "=", INPUTS["period"]], fields=("id",))["id"]
(draft,) = (
    each["id"]
    for each in erp.find("account.move", ["period", "=", period], ["state", "=", "draft"])
)
march = erp.one("account.period", ["name", "=", "2026-03"], fields=("id",))["id"]
erp.write("account.move", draft, date=date("2026-03-02"), period=march)
erp.button("account.period", "close", period)
erp.button("account.move", "post", draft)
answer(number=erp.one("account.move", ["id", "=", draft], fields=("number",))["number"])
