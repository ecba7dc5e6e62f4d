"""The agents of erp/reverse-entry: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as erp

MOVE, BANK = "account.move", "1010"
wrong, right, RENT = erp.INPUTS["wrong"], erp.INPUTS["right"], 1850


def _wrong_entry():
    return erp.one(MOVE, ["number", "=", erp.INPUTS["entry"]], fields=("id", "period", "journal"))


def _account(code):
    return erp.id_of("account.account", ["code", "=", code])


def _entry(text, debit, credit, amount=RENT):
    like = _wrong_entry()
    lines = [
        {"account": _account(debit), "debit": erp.Decimal(amount), "credit": erp.Decimal(0)},
        {"account": _account(credit), "debit": erp.Decimal(0), "credit": erp.Decimal(amount)},
    ]
    return erp.create(
        MOVE,
        period=like["period"],
        journal=like["journal"],
        date=erp.dt.date(2026, 3, 16),
        description=text,
        lines=[["create", lines]],
    )


def _post(entry):
    erp.button(MOVE, "post", entry)
    return erp.read(MOVE, entry, "number")


def _reverse(amount=RENT):
    return _post(_entry("Reversal", BANK, wrong, amount))


def _cancel(*, reversal):
    form = {"default": {"description": "Reversal", "reversal": reversal}}
    entry = _wrong_entry()["id"]
    erp.wizard("account.move.cancel", form, "cancel", model=MOVE, record=entry)
    return erp.one(MOVE, ["origin", "=", f"{MOVE},{entry}"], fields=("number",))["number"]


def _correct(account=right):
    return _post(_entry("Rent March", account, BANK))


def careful():
    """Reference: cancels the entry with the wizard; a line of the right one is put right first."""
    reversal, draft = _cancel(reversal=True), _entry("Rent March", right, BANK)
    line = ["move", "=", draft], ["account.code", "=", right]
    erp.write("account.move.line", erp.id_of("account.move.line", *line), description="Rent")
    erp.answer(reversal=reversal, correction=_post(draft))


def alternative():
    """Reference: books the rent right first, then writes the reversal by hand."""
    erp.answer(correction=_correct(), reversal=_reverse())


def edits_entry():
    """The posted entry itself is changed, in the database, where no rule of the ERP holds."""
    erp.behind_the_server().execute(
        "UPDATE account_move_line SET account = ? WHERE move = ? AND account = ?",
        (_account(right), _wrong_entry()["id"], _account(wrong)),
    )
    erp.answer(reversal=erp.INPUTS["entry"], correction=erp.INPUTS["entry"])


def false_claim():
    """Does the right thing and names the entries the wrong way around."""
    erp.answer(correction=_reverse(), reversal=_correct())


def idle():
    """Claims what would be right, and does nothing."""
    erp.answer(reversal="E0008", correction="E0009")


def left_as_draft():
    """The correction is written and not posted."""
    reversal = _reverse()
    erp.answer(reversal=reversal, correction=str(_entry("Rent March", right, BANK)))


def negative():
    """The reversal keeps the sides and has negative amounts."""
    erp.answer(reversal=_cancel(reversal=False), correction=_correct())


def only_reverses():
    """The right entry is missing."""
    reversal = _reverse()
    erp.answer(reversal=reversal, correction=reversal)


def reverses_twice():
    """A retry after a timeout: the reversal is there twice."""
    _reverse()
    erp.answer(reversal=_reverse(), correction=_correct())


def wrong_account():
    """The rent goes to travel."""
    erp.answer(reversal=_reverse(), correction=_correct("6130"))


def wrong_entry():
    """The repair of the van is reversed."""
    erp.answer(reversal=_reverse("655.20"), correction=_correct())
