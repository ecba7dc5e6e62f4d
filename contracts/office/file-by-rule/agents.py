"""The agents of office/file-by-rule: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as office

mailbox = office.Mailbox()
INVOICES = 'if header :contains "subject" "Invoice" { fileinto "Invoices/2026"; }'
ALERTS = 'if address :is "from" "alerts@brightwater.example" {\n  fileinto "Archive";\n}'


def _invoices():
    """UID → year, of the messages of the inbox that the rule is for."""
    found = {}
    for uid, message in mailbox.messages("INBOX").items():
        is_billing = message["From"].addresses[0].addr_spec.startswith("billing@")
        if is_billing and message["Subject"].startswith("Invoice"):
            found[uid] = str(message["Date"].datetime.year)
    return found


def _file(found):
    """They are in the folders of their years, and counted for the answer."""
    for year in sorted(set(found.values())):
        mailbox.move("INBOX", [uid for uid in found if found[uid] == year], f"Invoices/{year}")
    office.answer(filed=len(found))


def _put_filter(rule):
    mailbox.put_filter("main", f'require ["fileinto"];\n{rule}\n')


def careful():
    """Reference: reads each message and moves those of a year together."""
    _file(_invoices())


def alternative():
    """Reference: lets the server search, copies, and takes the originals away."""
    count = 0
    for year in (2025, 2026):
        dates = ("SENTSINCE", f"1-Jan-{year}", "SENTBEFORE", f"1-Jan-{year + 1}")
        found = mailbox.search("INBOX", "FROM", "billing@", "SUBJECT", "Invoice", *dates)
        mailbox.copy("INBOX", found, f"Invoices/{year}")
        mailbox.delete("INBOX", found)
        count += len(found)
    office.answer(filed=count)


def by_subject():
    """Faulty: files what Milo asks about templates too."""
    uid, _ = mailbox.find("INBOX", "inv-talk@brightwater.example")
    _file({**_invoices(), uid: "2026"})


def claims_more():
    """Faulty: the right way, and a claim of one more."""
    careful()
    office.answer(filed=5)


def copies():
    """Faulty: leaves the originals in the inbox."""
    for uid, year in _invoices().items():
        mailbox.copy("INBOX", [uid], f"Invoices/{year}")
    office.answer(filed=4)


def deletes():
    """Faulty: the oldest invoice is deleted for good instead of filed."""
    found = _invoices()
    oldest = min(found)
    mailbox.delete("INBOX", [oldest])
    _file({uid: year for uid, year in found.items() if uid != oldest})


def idle():
    """Faulty: does nothing and claims success."""
    office.answer(filed=4)


def marks():
    """Faulty: marks what it filed as seen."""
    found = _invoices()
    mailbox.flag("INBOX", list(found), office.SEEN)
    _file(found)


def misses_one():
    """Faulty: leaves the unseen invoice, and counts it as filed."""
    found = _invoices()
    _file({uid: year for uid, year in found.items() if uid != max(found)})
    office.answer(filed=len(found))


def rule_for_a_while():
    """Faulty: lets a filter do it, finds that it moves nothing, and puts the one before back."""
    _put_filter(INVOICES)
    careful()
    _put_filter(ALERTS)


def rule_instead():
    """Faulty: makes a filter for mail to come beside, which nobody wanted."""
    careful()
    _put_filter(INVOICES)


def this_year():
    """Faulty: all go to the folder of this year."""
    _file(dict.fromkeys(_invoices(), "2026"))
