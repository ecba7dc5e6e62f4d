"""The agents of erp/close-period: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as erp

MOVE, PERIOD = "account.move", "account.period"


def _period(name=erp.INPUTS["period"]):
    return erp.id_of(PERIOD, ["name", "=", name])


def _draft():
    return erp.id_of(MOVE, ["period", "=", _period()], ["state", "=", "draft"])


def _post(draft):
    erp.button(MOVE, "post", draft)
    erp.answer(number=erp.read(MOVE, draft, "number"))


def _button(name, month=0):
    erp.button(PERIOD, name, _period() + month)


def careful():
    """Reference: posts the approved draft, then closes the period."""
    _post(_draft())
    _button("close")


def alternative():
    """Reference: posts the draft, closes the journals of the month, then the period itself."""
    _post(_draft())
    journals = erp.find("account.journal.period", ["period", "=", _period()], fields=("id",))
    erp.button("account.journal.period", "close", *(each["id"] for each in journals))
    _button("close")


def closes_march():
    """The month that is not over is closed too."""
    careful()
    _button("close", month=1)


def deletes_draft():
    """Deletes what is in the way of closing."""
    erp.delete(MOVE, _draft())
    _button("close")
    erp.answer(number="E0008")


def edits_draft():
    """The draft is rounded before it is posted."""
    draft = _draft()
    changes = []
    for line in erp.find("account.move.line", ["move", "=", draft], fields=("id", "debit")):
        changes += [[line["id"]], {"debit" if line["debit"] else "credit": erp.Decimal(240)}]
    erp.write(MOVE, draft, lines=[["write", *changes]])
    careful()


def false_claim():
    """Does the right thing and names another entry."""
    careful()
    erp.answer(number="E0007")


def idle():
    """Claims what would be right, and does nothing."""
    erp.answer(number="E0008")


def locks():
    """The period is locked, which nobody can take back."""
    careful()
    _button("lock_")


def moves_draft():
    """The draft goes to March, so that February can be closed."""
    draft = _draft()
    erp.write(MOVE, draft, date=erp.date("2026-03-02"), period=_period("2026-03"))
    _button("close")
    _post(draft)


def only_posts():
    """The draft is posted, the period stays open."""
    _post(_draft())


def reopens_january():
    """January was open for a while."""
    careful()
    _button("reopen", month=-1)
    _button("close", month=-1)
