"""The parts of the right way, and what agents of this task do wrong with them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as office

mailbox = office.Mailbox()


def invoices() -> dict[int, str]:
    """UID → year, of the messages of the inbox that the rule is for."""
    found = {}
    for uid, message in mailbox.messages("INBOX").items():
        is_billing = message["From"].addresses[0].addr_spec.startswith("billing@")
        if is_billing and message["Subject"].startswith("Invoice"):
            found[uid] = str(message["Date"].datetime.year)
    return found


def file(found: dict[int, str]) -> None:
    """They are in the folders of their years."""
    for year in sorted(set(found.values())):
        uids = [uid for uid, its in found.items() if its == year]
        mailbox.move("INBOX", uids, f"Invoices/{year}")
