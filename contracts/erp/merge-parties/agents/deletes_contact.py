"""The e-mail address of the duplicate is deleted in place of moved."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer

erp = Erp()
stays, duplicate = INPUTS["stays"], INPUTS["duplicate"]
for each in erp.find("party.contact_mechanism", ["party", "=", duplicate], fields=("id",)):
    erp.delete("party.contact_mechanism", each["id"])
erp.wizard(
    "party.replace",
    {"ask": {"source": duplicate, "destination": stays}},
    "replace",
    model="party.party",
    records=(duplicate,),
    skip=("party.replace name",),
)
answer(stays=stays, replaced=duplicate)
