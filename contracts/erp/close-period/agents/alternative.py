"""Reference: posts the draft, closes the journals of the month, then the period itself."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer

erp = Erp()
period = erp.one("account.period", ["name", "=", INPUTS["period"]], fields=("id",))["id"]
(draft,) = (
    each["id"]
    for each in erp.find("account.move", ["period", "=", period], ["state", "=", "draft"])
)
erp.button("account.move", "post", draft)
journals = erp.find("account.journal.period", ["period", "=", period], fields=("id",))
erp.button("account.journal.period", "close", *(each["id"] for each in journals))
erp.button("account.period", "close", period)
answer(number=erp.one("account.move", ["id", "=", draft], fields=("number",))["number"])
