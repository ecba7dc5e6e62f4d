"""The agents of erp/reverse-entry: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from toolbox import INPUTS, Erp, account, answer, behind_the_server, entry


def _looked_up():
    erp = Erp()
    wrong = erp.one(
        "account.move", ["number", "=", INPUTS["entry"]], fields=("id", "period", "journal")
    )
    old, right, bank = (account(erp, code) for code in (INPUTS["wrong"], INPUTS["right"], "1010"))
    return erp, wrong, old, right, bank


def careful():
    """Reference: cancels the entry with the wizard for that, and posts the right one."""
    erp = Erp()
    wrong = erp.one(
        "account.move", ["number", "=", INPUTS["entry"]], fields=("id", "period", "journal")
    )
    right, bank = (account(erp, code) for code in (INPUTS["right"], "1010"))
    erp.wizard(
        "account.move.cancel",
        {"default": {"description": "Reversal", "reversal": True}},
        "cancel",
        model="account.move",
        records=(wrong["id"],),
    )
    reversal = erp.one(
        "account.move", ["origin", "=", f"account.move,{wrong['id']}"], fields=("number",)
    )["number"]
    correction = entry(erp, wrong, "Rent March", (right, 1850, 0), (bank, 0, 1850))
    answer(reversal=reversal, correction=correction)


def alternative():
    """Reference: books the rent right first, then writes the reversal by hand."""
    erp, wrong, old, right, bank = _looked_up()
    correction = entry(erp, wrong, "Rent March", (right, 1850, 0), (bank, 0, 1850))
    reversal = entry(erp, wrong, "Reversal", (bank, 1850, 0), (old, 0, 1850))
    answer(reversal=reversal, correction=correction)


def edits_entry():
    """The posted entry itself is changed, in the database, where no rule of the ERP holds."""
    erp = Erp()
    wrong = erp.one("account.move", ["number", "=", INPUTS["entry"]])["id"]
    old, right = account(erp, INPUTS["wrong"]), account(erp, INPUTS["right"])
    behind_the_server().execute(
        "UPDATE account_move_line SET account = ? WHERE move = ? AND account = ?",
        (right, wrong, old),
    )
    answer(reversal=INPUTS["entry"], correction=INPUTS["entry"])


def false_claim():
    """Does the right thing and names the entries the wrong way around."""
    erp, wrong, old, right, bank = _looked_up()
    reversal = entry(erp, wrong, "Reversal", (bank, 1850, 0), (old, 0, 1850))
    correction = entry(erp, wrong, "Rent March", (right, 1850, 0), (bank, 0, 1850))
    answer(reversal=correction, correction=reversal)


def idle():
    """Claims what would be right, and does nothing."""
    answer(reversal="E0008", correction="E0009")


def left_as_draft():
    """The correction is written and not posted."""
    erp, wrong, old, right, bank = _looked_up()
    reversal = entry(erp, wrong, "Reversal", (bank, 1850, 0), (old, 0, 1850))
    correction = entry(erp, wrong, "Rent March", (right, 1850, 0), (bank, 0, 1850), post=False)
    answer(reversal=reversal, correction=str(correction))


def negative():
    """The reversal keeps the sides and has negative amounts."""
    erp = Erp()
    wrong = erp.one(
        "account.move", ["number", "=", INPUTS["entry"]], fields=("id", "period", "journal")
    )
    _old, right, bank = (account(erp, code) for code in (INPUTS["wrong"], INPUTS["right"], "1010"))
    erp.wizard(
        "account.move.cancel",
        {"default": {"description": "Reversal", "reversal": False}},
        "cancel",
        model="account.move",
        records=(wrong["id"],),
    )
    reversal = erp.one(
        "account.move", ["origin", "=", f"account.move,{wrong['id']}"], fields=("number",)
    )["number"]
    correction = entry(erp, wrong, "Rent March", (right, 1850, 0), (bank, 0, 1850))
    answer(reversal=reversal, correction=correction)


def only_reverses():
    """The right entry is missing."""
    erp, wrong, old, _right, bank = _looked_up()
    reversal = entry(erp, wrong, "Reversal", (bank, 1850, 0), (old, 0, 1850))
    answer(reversal=reversal, correction=reversal)


def reverses_twice():
    """A retry after a timeout: the reversal is there twice."""
    erp, wrong, old, right, bank = _looked_up()
    reversal = entry(erp, wrong, "Reversal", (bank, 1850, 0), (old, 0, 1850))
    reversal = entry(erp, wrong, "Reversal", (bank, 1850, 0), (old, 0, 1850))
    correction = entry(erp, wrong, "Rent March", (right, 1850, 0), (bank, 0, 1850))
    answer(reversal=reversal, correction=correction)


def wrong_account():
    """The rent goes to travel."""
    erp, wrong, old, right, bank = _looked_up()
    right = account(erp, "6130")
    reversal = entry(erp, wrong, "Reversal", (bank, 1850, 0), (old, 0, 1850))
    correction = entry(erp, wrong, "Rent March", (right, 1850, 0), (bank, 0, 1850))
    answer(reversal=reversal, correction=correction)


def wrong_entry():
    """The repair of the van is reversed."""
    erp, wrong, old, right, bank = _looked_up()
    reversal = entry(erp, wrong, "Reversal", (bank, "655.20", 0), (old, 0, "655.20"))
    correction = entry(erp, wrong, "Rent March", (right, 1850, 0), (bank, 0, 1850))
    answer(reversal=reversal, correction=correction)


def wrong_month():
    """The correction is of April."""
    erp, wrong, old, right, bank = _looked_up()
    reversal = entry(erp, wrong, "Reversal", (bank, 1850, 0), (old, 0, 1850))
    april = {**wrong, "period": wrong["period"] + 1, "month": 4}
    correction = entry(erp, april, "Rent March", (right, 1850, 0), (bank, 0, 1850))
    answer(reversal=reversal, correction=correction)
