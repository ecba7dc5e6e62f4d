"""The period is locked, which nobody can take back."""

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
erp.button("account.period", "lock_", period)
answer(number=erp.one("account.move", ["id", "=", draft], fields=("number",))["number"])
