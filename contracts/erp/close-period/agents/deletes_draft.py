"""What is in the way of closing is deleted."""

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
erp.delete("account.move", draft)
erp.button("account.period", "close", period)
answer(number="E0008")
