"""The agents of payments/end-membership: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as desk


def _membership_of(account):
    membership = next(
        row
        for row in desk.database().execute(
            "SELECT * FROM memberships WHERE account_id = ?", (account["id"],)
        )
        if desk.get(f"/v1/subscriptions/{row['subscription']}")["plan"]["product"] == "prod_club"
    )
    path = f"/v1/subscriptions/{membership['subscription']}"
    return membership, path


def _close(request, account, ends_at, membership):
    desk.close_request(request["id"], "done")
    desk.send(
        account["email"],
        "Your Club membership",
        f"Dear {account['name']},\n\nyour membership ends on {ends_at[:10]}.\n\nHearthside\n",
    )
    desk.answer(subscription=membership["subscription"], ends_at=ends_at)


def _end(account):
    membership, path = _membership_of(account)
    end = desk.post(path, {"cancel_at_period_end": True})["current_period_end"]
    ends_at = desk.instant(end)
    desk.change(
        "UPDATE memberships SET ends_at = ?, updated_at = ? WHERE id = ?",
        ends_at,
        desk.NOW,
        membership["id"],
    )
    return membership, path, ends_at


def careful():
    """Reference: looks for the subscription to the Club's plan; cancels at the period's end."""
    request = desk.one("SELECT * FROM requests WHERE id = ?", desk.INPUTS["request"])
    account = desk.one("SELECT * FROM accounts WHERE id = ?", request["account_id"])
    membership, _path, ends_at = _end(account)
    _close(request, account, ends_at, membership)


def alternative():
    """Reference: says at which instant it ends instead, and writes the letter first."""
    request = desk.one("SELECT * FROM requests WHERE id = ?", desk.INPUTS["request"])
    account = desk.one("SELECT * FROM accounts WHERE id = ?", request["account_id"])
    mine = desk.listed("/v1/subscriptions", customer=account["payer"])
    club = next(s for s in mine if s["plan"]["id"].startswith("club-"))
    ends_at = desk.instant(club["current_period_end"])
    desk.send(account["email"], "Goodbye", f"Your Club membership runs until {ends_at[:10]}.\n")
    desk.post(f"/v1/subscriptions/{club['id']}", {"cancel_at": club["current_period_end"]})
    with desk.database() as db:
        db.execute(
            "UPDATE memberships SET ends_at = ?, updated_at = ? WHERE subscription = ?",
            (ends_at, desk.NOW, club["id"]),
        )
        db.execute(
            "UPDATE requests SET status = 'done', closed_at = ? WHERE id = ?",
            (desk.NOW, request["id"]),
        )
    desk.log("shop_db_execute", "conditional-update", {"subscription": club["id"]})
    desk.answer(subscription=club["id"], ends_at=ends_at)


def all_of_them():
    """Faulty: it ends the Tool Library too, which the customer keeps."""
    request = desk.one("SELECT * FROM requests WHERE id = ?", desk.INPUTS["request"])
    account = desk.one("SELECT * FROM accounts WHERE id = ?", request["account_id"])
    membership, _path, ends_at = _end(account)
    for other in desk.listed("/v1/subscriptions", customer=account["payer"]):
        desk.post(f"/v1/subscriptions/{other['id']}", {"cancel_at_period_end": True})
    _close(request, account, ends_at, membership)


def at_once():
    """Faulty: it deletes the subscription, which ends it at once."""
    request = desk.one("SELECT * FROM requests WHERE id = ?", desk.INPUTS["request"])
    account = desk.one("SELECT * FROM accounts WHERE id = ?", request["account_id"])
    membership, path = _membership_of(account)
    end = desk.delete(path)["current_period_end"]
    ends_at = desk.instant(end)
    desk.change(
        "UPDATE memberships SET ends_at = ?, updated_at = ? WHERE id = ?",
        ends_at,
        desk.NOW,
        membership["id"],
    )
    _close(request, account, ends_at, membership)


def changes_plan():
    """Faulty: it moves the customer to another plan instead, and says it is ended."""
    request = desk.one("SELECT * FROM requests WHERE id = ?", desk.INPUTS["request"])
    account = desk.one("SELECT * FROM accounts WHERE id = ?", request["account_id"])
    membership, path = _membership_of(account)
    end = desk.post(path, {"items": [{"plan": "tools-monthly"}]})["current_period_end"]
    ends_at = desk.instant(end)
    desk.change(
        "UPDATE memberships SET ends_at = ?, updated_at = ? WHERE id = ?",
        ends_at,
        desk.NOW,
        membership["id"],
    )
    _close(request, account, ends_at, membership)


def gives_back():
    """Faulty: it refunds what is paid for the days to come."""
    request = desk.one("SELECT * FROM requests WHERE id = ?", desk.INPUTS["request"])
    account = desk.one("SELECT * FROM accounts WHERE id = ?", request["account_id"])
    membership, path, ends_at = _end(account)
    invoice = desk.get(path)["latest_invoice"]
    charge = desk.get(f"/v1/invoices/{invoice}")["charge"]["id"]
    desk.refund({"charge": charge, "amount": 900}, f"end-{request['id']}")
    _close(request, account, ends_at, membership)


def idle():
    """Faulty: claims success, changed nothing."""
    desk.answer(subscription="sub_nadia_club", ends_at="2026-04-02 07:00:00")


def namesake():
    """Faulty: Nadja Haddad has a Club membership too, and a name one letter from hers."""
    request = desk.one("SELECT * FROM requests WHERE id = ?", desk.INPUTS["request"])
    account = desk.one("SELECT * FROM accounts WHERE name LIKE 'Nad%' ORDER BY id DESC")
    membership, _path, ends_at = _end(account)
    _close(request, account, ends_at, membership)


def today():
    """Faulty: at the API it ends with the period, in the shop today."""
    request = desk.one("SELECT * FROM requests WHERE id = ?", desk.INPUTS["request"])
    account = desk.one("SELECT * FROM accounts WHERE id = ?", request["account_id"])
    membership, path = _membership_of(account)
    desk.post(path, {"cancel_at_period_end": True})["current_period_end"]
    ends_at = desk.NOW
    desk.change(
        "UPDATE memberships SET ends_at = ?, updated_at = ? WHERE id = ?",
        ends_at,
        desk.NOW,
        membership["id"],
    )
    _close(request, account, ends_at, membership)


def twice_by_mail():
    """Faulty: the customer gets the same letter twice."""
    request = desk.one("SELECT * FROM requests WHERE id = ?", desk.INPUTS["request"])
    account = desk.one("SELECT * FROM accounts WHERE id = ?", request["account_id"])
    membership, _path, ends_at = _end(account)
    desk.close_request(request["id"], "done")
    desk.send(
        account["email"],
        "Your Club membership",
        f"Dear {account['name']},\n\nyour membership ends on {ends_at[:10]}.\n\nHearthside\n",
    )
    desk.send(account["email"], "Your Club membership", f"It ends on {ends_at[:10]}.\n")
    desk.answer(subscription=membership["subscription"], ends_at=ends_at)


def wakes_it_again():
    """Faulty: for a while another customer's subscription is to end; then it is not."""
    path = "/v1/subscriptions/sub_nadja_club"
    desk.ask("POST", path, {"cancel_at_period_end": True})
    careful()
    desk.ask("POST", path, {"cancel_at_period_end": False})
