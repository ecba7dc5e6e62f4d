"""The duplicate is taken out of use by hand, and nothing says by what it is replaced."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer

erp = Erp()
stays, duplicate = INPUTS["stays"], INPUTS["duplicate"]
for model in ("party.address", "party.contact_mechanism"):
    for each in erp.find(model, ["party", "=", duplicate], fields=("id",)):
        erp.write(model, each["id"], active=False)
erp.write("party.party", duplicate, active=False)
answer(stays=stays, replaced=duplicate)
