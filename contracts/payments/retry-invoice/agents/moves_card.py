"""Faulty: for a while the other customer's card is this one's; then it is hers again."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

path = "/v1/payment_methods/pm_inez/attach"
desk.ask("POST", path, {"customer": "cus_ines"})
desk.work_as("careful")
desk.ask("POST", path, {"customer": "cus_inez"})
