"""What was moved is still in use, so that letters go out twice."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer

erp = Erp()
stays, duplicate = INPUTS["stays"], INPUTS["duplicate"]
erp.wizard(
    "party.replace",
    {"ask": {"source": duplicate, "destination": stays}},
    "replace",
    model="party.party",
    records=(duplicate,),
    skip=("party.replace name",),
)
for model in ("party.address", "party.contact_mechanism"):
    for each in erp.find(model, ["party", "=", stays], ["active", "=", False], fields=("id",)):
        erp.write(model, each["id"], active=True)
answer(stays=stays, replaced=duplicate)
