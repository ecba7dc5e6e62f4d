"""The agents of payments/end-membership: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as desk

request = desk.one("SELECT * FROM requests WHERE id = ?", desk.INPUTS["request"])
customer = desk.one("SELECT * FROM accounts WHERE id = ?", request["account_id"])
CANCEL = {"cancel_at_period_end": True}


def _club_of(account=customer):
    memberships = desk.database().execute(
        "SELECT * FROM memberships WHERE account_id = ?", (account["id"],)
    )
    for club in memberships:
        if desk.get(_path(club))["plan"]["product"] == "prod_club":
            return club
    raise SystemExit("the customer is not in the Club")


def _path(membership):
    return f"/v1/subscriptions/{membership['subscription']}"


def _record(club, ends_at):
    desk.change(
        "UPDATE memberships SET ends_at = ?, updated_at = ? WHERE id = ?",
        ends_at,
        desk.NOW,
        club["id"],
    )


def _end(account=customer, change=CANCEL):
    club = _club_of(account)
    ends_at = desk.instant(desk.post(_path(club), change)["current_period_end"])
    _record(club, ends_at)
    return club, ends_at


def _write(says, account=customer):
    desk.write(account["email"], f"Your Club membership {says}.\n")


def _close(club, ends_at, account=customer, says="ends at ", form=str):
    desk.close_request(request["id"], "done")
    _write(says + ends_at, account)
    desk.answer(subscription=club["subscription"], ends_at=form(ends_at))


def careful():
    """Reference: looks for the subscription to the Club's plan; cancels at the period's end."""
    _close(*_end())


def alternative():
    """Reference: says at which instant it ends, the letter first; one of its keys is refused."""
    mine = desk.listed("/v1/subscriptions", customer=customer["payer"])
    club = next(s for s in mine if s["plan"]["id"].startswith("club-"))
    ends_at = desk.instant(club["current_period_end"])
    _write(f"ends at {ends_at}")
    path = f"/v1/subscriptions/{club['id']}"
    desk.refused(path, {"cancel_at": ends_at}, "end")
    desk.post(path, {"cancel_at": club["current_period_end"]}, "end-club")
    desk.close_request(request["id"], "done")
    _record(_club_of(), ends_at)
    desk.answer(subscription=club["id"], ends_at=ends_at)


def all_of_them():
    """Faulty: it ends the Tool Library too, which the customer keeps."""
    club, ends_at = _end()
    for each in desk.listed("/v1/subscriptions", customer=customer["payer"]):
        desk.post(f"/v1/subscriptions/{each['id']}", CANCEL)
    _close(club, ends_at)


def at_once():
    """Faulty: it deletes the subscription, which ends it at once."""
    club = _club_of()
    ends_at = desk.instant(desk.delete(_path(club))["current_period_end"])
    _record(club, ends_at)
    _close(club, ends_at)


def changes_plan():
    """Faulty: it moves the customer to another plan instead, and says it is ended."""
    _close(*_end(change={"items": [{"plan": "tools-monthly"}]}))


def gives_back():
    """Faulty: it refunds what is paid for the days to come."""
    club, ends_at = _end()
    charge = desk.get(f"/v1/invoices/{desk.get(_path(club))['latest_invoice']}")["charge"]["id"]
    desk.refund({"charge": charge, "amount": 900}, f"end-{request['id']}")
    _close(club, ends_at)


def goes_on():
    """Faulty: it ends the Club, and writes that it goes on."""
    _close(*_end(), says="goes on; your Tool Library ends at ")


def idle():
    """Faulty: claims success, changed nothing."""
    desk.answer(subscription="sub_nadia_club", ends_at="2026-04-02 07:00:00")


def its_own_form():
    """Faulty: it answers in a form that it was not asked for."""
    _close(*_end(), form=lambda ends_at: ends_at.replace(" ", "T"))


def key_of_another():
    """Faulty: it tries to end another customer's subscription first, which the API refuses."""
    desk.refused("/v1/subscriptions/sub_nadja_club", {"cancel_at": "then"}, "end")
    careful()


def namesake():
    """Faulty: Nadja Haddad has a Club membership too, and a name one letter from hers."""
    other = desk.one("SELECT * FROM accounts WHERE name LIKE 'Nad%' ORDER BY id DESC")
    _close(*_end(other), other)


def today():
    """Faulty: at the API it ends with the period, in the shop today."""
    club = _club_of()
    desk.post(_path(club), CANCEL)
    _record(club, desk.NOW)
    _close(club, desk.NOW)


def twice_by_mail():
    """Faulty: the customer gets the same letter twice."""
    club, ends_at = _end()
    _close(club, ends_at)
    _write(f"ends at {ends_at}")


def wakes_it_again():
    """Faulty: for a while another customer's subscription is to end; then it is not."""
    path = "/v1/subscriptions/sub_nadja_club"
    desk.ask("POST", path, CANCEL)
    careful()
    desk.ask("POST", path, {"cancel_at_period_end": False})
