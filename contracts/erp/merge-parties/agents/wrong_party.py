"""Another party is merged as well, because its name is alike in a list."""

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
erp.wizard(
    "party.replace",
    {"ask": {"source": duplicate - 2, "destination": stays}},
    "replace",
    model="party.party",
    records=(duplicate - 2,),
    skip=("party.replace name",),
)
answer(stays=stays, replaced=duplicate)
