"""Reference: cancels the entry with the wizard for that, and posts the right one."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, date

erp = Erp()
wrong = erp.one("account.move", ["number", "=", INPUTS["entry"]], fields=("id", "period"))
erp.wizard(
    "account.move.cancel",
    {"default": {"description": "Reversal", "reversal": True}},
    "cancel",
    model="account.move",
    records=(wrong["id"],),
)
print(erp.find("account.move", ["origin", "=", "account.move,%d" % wrong["id"]]))
