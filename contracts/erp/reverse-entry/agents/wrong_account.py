"""The rent goes to travel."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, account, answer, entry

erp = Erp()
wrong = erp.one(
    "account.move", ["number", "=", INPUTS["entry"]], fields=("id", "period", "journal")
)
old, right, bank = (account(erp, code) for code in (INPUTS["wrong"], INPUTS["right"], "1010"))
right = account(erp, "6130")
reversal = entry(erp, wrong, "Reversal", (bank, 1850, 0), (old, 0, 1850))
correction = entry(erp, wrong, "Rent March", (right, 1850, 0), (bank, 0, 1850))
answer(reversal=reversal, correction=correction)
