"""The agents of erp/merge-parties: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from toolbox import INPUTS, Erp, answer

stays, duplicate = INPUTS["stays"], INPUTS["duplicate"]


def _merge(erp, duplicate, stays):
    erp.wizard(
        "party.replace",
        {"ask": {"source": duplicate, "destination": stays}},
        "replace",
        model="party.party",
        records=(duplicate,),
        skip=("party.replace name",),
    )


def careful():
    """Reference: replaces the duplicate with the wizard for that."""
    erp = Erp()
    _merge(erp, duplicate, stays)
    answer(stays=stays, replaced=duplicate)


def alternative():
    """Reference: takes address and e-mail address out of use by hand; the wizard does the rest."""
    erp = Erp()
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


def by_half():
    """The duplicate is taken out of use by hand, and nothing says by what it is replaced."""
    erp = Erp()
    for model in ("party.address", "party.contact_mechanism"):
        for each in erp.find(model, ["party", "=", duplicate], fields=("id",)):
            erp.write(model, each["id"], active=False)
    erp.write("party.party", duplicate, active=False)
    answer(stays=stays, replaced=duplicate)


def deletes_contact():
    """The e-mail address of the duplicate is deleted in place of moved."""
    erp = Erp()
    for each in erp.find("party.contact_mechanism", ["party", "=", duplicate], fields=("id",)):
        erp.delete("party.contact_mechanism", each["id"])
    _merge(erp, duplicate, stays)
    answer(stays=stays, replaced=duplicate)


def false_claim():
    """Does the right thing and reports it the wrong way around."""
    erp = Erp()
    _merge(erp, duplicate, stays)
    answer(stays=duplicate, replaced=stays)


def idle():
    """Claims the merge, and does nothing."""
    answer(stays=INPUTS["stays"], replaced=INPUTS["duplicate"])


def keeps_active():
    """What was moved is still in use, so that letters go out twice."""
    erp = Erp()
    _merge(erp, duplicate, stays)
    for model in ("party.address", "party.contact_mechanism"):
        for each in erp.find(model, ["party", "=", stays], ["active", "=", False], fields=("id",)):
            erp.write(model, each["id"], active=True)
    answer(stays=stays, replaced=duplicate)


def puts_back():
    """For a while the record that stays was out of use, and nothing shows it any more."""
    erp = Erp()
    erp.write("party.party", stays, active=False)
    erp.write("party.party", stays, active=True)
    _merge(erp, duplicate, stays)
    answer(stays=stays, replaced=duplicate)


def renames():
    """The record that stays gets the longer name."""
    erp = Erp()
    _merge(erp, duplicate, stays)
    erp.write("party.party", stays, name="Aalto Engineering Oy")
    answer(stays=stays, replaced=duplicate)


def swapped():
    """The record that should stay is replaced."""
    erp = Erp()
    duplicate, stays = INPUTS["stays"], INPUTS["duplicate"]
    _merge(erp, duplicate, stays)
    answer(stays=stays, replaced=duplicate)


def wrong_party():
    """Another party is merged as well, because its name is alike in a list."""
    erp = Erp()
    _merge(erp, duplicate, stays)
    erp.wizard(
        "party.replace",
        {"ask": {"source": duplicate - 2, "destination": stays}},
        "replace",
        model="party.party",
        records=(duplicate - 2,),
        skip=("party.replace name",),
    )
    answer(stays=stays, replaced=duplicate)
