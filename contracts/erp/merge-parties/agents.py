"""The agents of erp/merge-parties: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as erp

stays, duplicate = erp.INPUTS["stays"], erp.INPUTS["duplicate"]
CONTACT, PARTY = "party.contact_mechanism", "party.party"


def _merge(source=duplicate, destination=stays, skip=("party.replace name",)):
    form = {"ask": {"source": source, "destination": destination}}
    erp.wizard("party.replace", form, "replace", model=PARTY, record=source, skip=skip)
    _report()


def _report(stays=stays, replaced=duplicate):
    erp.answer(stays=stays, replaced=replaced)


def _set_active(party, value):
    for model in ("party.address", CONTACT):
        known = erp.find(model, ["party", "=", party], ["active", "!=", value], fields=("id",))
        for each in known:
            erp.write(model, each["id"], active=value)


def careful():
    """Reference: replaces the duplicate with the wizard for that."""
    _merge()


def alternative():
    """Reference: takes address and e-mail address out of use by hand; the wizard does the rest."""
    _set_active(duplicate, False)
    warning = f"party.replace name {duplicate} {stays}"
    erp.call("model.res.user.warning.skip", warning, False, erp.context())
    _merge(skip=())


def by_half():
    """The duplicate is taken out of use by hand, and nothing says by what it is replaced."""
    _set_active(duplicate, False)
    erp.write(PARTY, duplicate, active=False)
    _report()


def deletes_contact():
    """The e-mail address of the duplicate is deleted in place of moved."""
    for each in erp.find(CONTACT, ["party", "=", duplicate], fields=("id",)):
        erp.delete(CONTACT, each["id"])
    _merge()


def false_claim():
    """Does the right thing and reports it the wrong way around."""
    _merge()
    _report(stays=duplicate, replaced=stays)


def idle():
    """Claims the merge, and does nothing."""
    _report()


def keeps_active():
    """Leaves what was moved in use, so that letters go out twice."""
    _merge()
    _set_active(stays, True)


def puts_back():
    """For a while the record that stays was out of use, and nothing shows it any more."""
    erp.write(PARTY, stays, active=False)
    erp.write(PARTY, stays, active=True)
    _merge()


def renames():
    """The record that stays gets the longer name."""
    _merge()
    erp.write(PARTY, stays, name="Aalto Engineering Oy")


def swapped():
    """The record that should stay is replaced."""
    _merge(stays, duplicate)
    _report(stays=duplicate, replaced=stays)
