"""Reference: posts the approved draft, then closes the period."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer

erp = Erp()
period = erp.one("account.period", ["name", "=", INPUTS["period"]], fields=("id",))["id"]
draft = erp.one("account.move", ["period", "=", period], ["state", "=", "draft"], fields=("id",))
erp.button("account.move", "post", draft["id"])
erp.button("account.period", "close", period)
posted = erp.one("account.move", ["id", "=", draft["id"]], fields=("number",))
answer(number=posted["number"])
