"""Reference: looks for the subscription whose plan is the Club's; cancels at the period's end."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

request = desk.one("SELECT * FROM requests WHERE id = ?", desk.INPUTS["request"])
account = desk.one("SELECT * FROM accounts WHERE id = ?", request["account_id"])
membership = next(
    row
    for row in desk.database().execute(
        "SELECT * FROM memberships WHERE account_id = ?", (account["id"],)
    )
    if desk.get(f"/v1/subscriptions/{row['subscription']}")["plan"]["product"] == "prod_club"
)
path = f"/v1/subscriptions/{membership['subscription']}"
end = desk.post(path, {"cancel_at_period_end": True})["current_period_end"]
ends_at = desk.instant(end)
desk.change(
    "UPDATE memberships SET ends_at = ?, updated_at = ? WHERE id = ?",
    ends_at,
    desk.NOW,
    membership["id"],
)
desk.close_request(request["id"], "done")
desk.send(
    account["email"],
    "Your Club membership",
    f"Dear {account['name']},\n\nyour membership ends on {ends_at[:10]}.\n\nHearthside\n",
)
desk.answer(subscription=membership["subscription"], ends_at=ends_at)
