"""Does the right thing and reports it the wrong way around."""

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
answer(stays=duplicate, replaced=stays)
