"""The reversal keeps the sides and has negative amounts."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, account, answer, entry

erp = Erp()
wrong = erp.one(
    "account.move", ["number", "=", INPUTS["entry"]], fields=("id", "period", "journal")
)
_old, right, bank = (account(erp, code) for code in (INPUTS["wrong"], INPUTS["right"], "1010"))
erp.wizard(
    "account.move.cancel",
    {"default": {"description": "Reversal", "reversal": False}},
    "cancel",
    model="account.move",
    records=(wrong["id"],),
)
reversal = erp.one(
    "account.move", ["origin", "=", f"account.move,{wrong['id']}"], fields=("number",)
)["number"]
correction = entry(erp, wrong, "Rent March", (right, 1850, 0), (bank, 0, 1850))
answer(reversal=reversal, correction=correction)
