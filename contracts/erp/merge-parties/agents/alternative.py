"""Reference: takes address and e-mail address out of use by hand; the wizard does the rest."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer

erp = Erp()
stays, duplicate = INPUTS["stays"], INPUTS["duplicate"]
for model in ("party.address", "party.contact_mechanism"):
    for each in erp.find(model, ["party", "=", duplicate], fields=("id",)):
        erp.write(model, each["id"], active=False)
erp.call(
    "model.res.user.warning.skip", f"party.replace name {duplicate} {stays}", False, erp.context
)
erp.wizard(
    "party.replace",
    {"ask": {"source": duplicate, "destination": stays}},
    "replace",
    model="party.party",
    records=(duplicate,),
)
answer(stays=stays, replaced=duplicate)
