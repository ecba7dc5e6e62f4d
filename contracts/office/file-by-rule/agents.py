"""The agents of office/file-by-rule: right ones first, then wrong ones."""

import steps


def careful():
    """Reference: reads each message and moves those of a year together."""
    found = steps.invoices()
    steps.file(found)
    steps.office.answer(filed=len(found))


def alternative():
    """Reference: lets the server search, copies, and takes the originals away."""
    mailbox = steps.mailbox
    count = 0
    for year in (2025, 2026):
        dates = ("SENTSINCE", f"1-Jan-{year}", "SENTBEFORE", f"1-Jan-{year + 1}")
        found = mailbox.search("INBOX", "FROM", "billing@", "SUBJECT", "Invoice", *dates)
        mailbox.copy("INBOX", found, f"Invoices/{year}")
        mailbox.delete("INBOX", found)
        count += len(found)
    steps.office.answer(filed=count)


def by_subject():
    """Faulty: files what Milo asks about templates too."""
    found = steps.invoices()
    uid, _ = steps.mailbox.find("INBOX", "inv-talk@brightwater.example")
    steps.file({**found, uid: "2026"})
    steps.office.answer(filed=5)


def claims_more():
    """Faulty: the right way, and a claim of one more."""
    found = steps.invoices()
    steps.file(found)
    steps.office.answer(filed=len(found) + 1)


def copies():
    """Faulty: leaves the originals in the inbox."""
    found = steps.invoices()
    for uid, year in found.items():
        steps.mailbox.copy("INBOX", [uid], f"Invoices/{year}")
    steps.office.answer(filed=len(found))


def deletes():
    """Faulty: the oldest invoice is deleted for good instead of filed."""
    found = steps.invoices()
    oldest = min(found)
    steps.mailbox.delete("INBOX", [oldest])
    steps.file({uid: year for uid, year in found.items() if uid != oldest})
    steps.office.answer(filed=len(found) - 1)


def idle():
    """Faulty: does nothing and claims success."""
    steps.office.answer(filed=4)


def marks():
    """Faulty: marks what it filed as seen."""
    found = steps.invoices()
    steps.mailbox.flag("INBOX", list(found), steps.office.SEEN)
    steps.file(found)
    steps.office.answer(filed=len(found))


def misses_one():
    """Faulty: leaves the unseen invoice, and counts it as filed."""
    found = steps.invoices()
    steps.file({uid: year for uid, year in found.items() if uid != max(found)})
    steps.office.answer(filed=len(found))


def rule_for_a_while():
    """Faulty: lets a filter do it, finds that it moves nothing, and puts the one before back."""
    found = steps.invoices()
    rule = 'if header :contains "subject" "Invoice" { fileinto "Invoices/2026"; }'
    steps.mailbox.put_filter("main", f'require ["fileinto"];\n{rule}\n')
    steps.file(found)
    alerts = 'if address :is "from" "alerts@brightwater.example" {\n  fileinto "Archive";\n}'
    steps.mailbox.put_filter("main", f'require ["fileinto"];\n{alerts}\n')
    steps.office.answer(filed=len(found))


def rule_instead():
    """Faulty: makes a filter for mail to come beside, which nobody wanted."""
    found = steps.invoices()
    steps.file(found)
    rule = 'if header :contains "subject" "Invoice" { fileinto "Invoices/2026"; }'
    steps.mailbox.put_filter("main", f'require ["fileinto"];\n{rule}\n')
    steps.office.answer(filed=len(found))


def this_year():
    """Faulty: all go to the folder of this year."""
    found = dict.fromkeys(steps.invoices(), "2026")
    steps.file(found)
    steps.office.answer(filed=len(found))
