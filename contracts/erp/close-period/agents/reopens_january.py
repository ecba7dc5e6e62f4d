"""January was open for a while."""

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
erp.button("account.period", "close", period)
erp.button("account.period", "reopen", period - 1)
erp.button("account.period", "close", period - 1)
answer(number=erp.one("account.move", ["id", "=", draft], fields=("number",))["number"])
