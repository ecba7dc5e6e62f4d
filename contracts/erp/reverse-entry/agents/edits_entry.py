"""The posted entry itself is changed, in the database, where no rule of the ERP holds."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, account, answer, behind_the_server

erp = Erp()
wrong = erp.one("account.move", ["number", "=", INPUTS["entry"]])["id"]
old, right = account(erp, INPUTS["wrong"]), account(erp, INPUTS["right"])
behind_the_server().execute(
    "UPDATE account_move_line SET account = ? WHERE move = ? AND account = ?", (right, wrong, old)
)
answer(reversal=INPUTS["entry"], correction=INPUTS["entry"])
