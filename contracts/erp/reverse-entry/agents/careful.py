"""Reference: cancels the entry with the wizard for that, and posts the right one."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, account, answer, entry

erp = Erp()
wrong = erp.one(
    "account.move", ["number", "=", INPUTS["entry"]], fields=("id", "period", "journal")
)
right, bank = (account(erp, code) for code in (INPUTS["right"], "1010"))
erp.wizard(
    "account.move.cancel",
    {"default": {"description": "Reversal", "reversal": True}},
    "cancel",
    model="account.move",
    records=(wrong["id"],),
)
reversal = erp.one(
    "account.move", ["origin", "=", f"account.move,{wrong['id']}"], fields=("number",)
)["number"]
correction = entry(erp, wrong, "Rent March", (right, 1850, 0), (bank, 0, 1850))
answer(reversal=reversal, correction=correction)
