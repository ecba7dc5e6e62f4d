"""Reference: says at which instant it ends instead, and writes the letter first."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

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
