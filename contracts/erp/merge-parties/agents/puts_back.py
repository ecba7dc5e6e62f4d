"""For a while the record that stays was out of use, and nothing shows it any more."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer

erp = Erp()
stays, duplicate = INPUTS["stays"], INPUTS["duplicate"]
erp.write("party.party", stays, active=False)
erp.write("party.party", stays, active=True)
erp.wizard(
    "party.replace",
    {"ask": {"source": duplicate, "destination": stays}},
    "replace",
    model="party.party",
    records=(duplicate,),
    skip=("party.replace name",),
)
answer(stays=stays, replaced=duplicate)
