"""Reference: posts the approved draft, then closes the period."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer

erp = Erp()
period = erp.one("account.period", ["name", "=", INPUTS["period"]], fields=("id",))["id"]
drafts = erp.find("account.move", ["period", "=", period], ["state", "=", "draft"], fields=("id",))
erp.button("account.move", "post", *(each["id"] for each in drafts))
erp.button("account.period", "close", period)
(number,) = (
    each["number"]
    for each in erp.find("account.move", ["id", "=", drafts[0]["id"]], fields=("number",))
)
answer(number=number)
