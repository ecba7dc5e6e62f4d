"""The agents of office/clear-inbox: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as office

mailbox = office.Mailbox()


def _done_with(year):
    """UIDs of the seen, unflagged messages of the inbox from that year, before March 2026."""
    until = "1-Mar-2026" if year == 2026 else f"1-Jan-{year + 1}"
    dates = ("SENTSINCE", f"1-Jan-{year}", "SENTBEFORE", until)
    return mailbox.search("INBOX", "SEEN", "UNFLAGGED", *dates)


def _file():
    """All that is done with is in the archive; how many that are."""
    years = {year: _done_with(year) for year in (2025, 2026)}
    for year, uids in years.items():
        mailbox.move("INBOX", uids, f"Archive/{year}")
    return sum(map(len, years.values()))


def _report(filed=9):
    """The answer is handed in, with what is left as it is now."""
    office.answer(filed=filed, left=len(mailbox.messages("INBOX")))


def _message_on_hold():
    """UIDs of the lawyer's message, which has a flag."""
    return [mailbox.find("INBOX", "hold-2025-11@brightwater.example")[0]]


def careful():
    """Reference: lets the server search, and moves year by year."""
    _report(_file())


def alternative():
    """Reference: goes from the newest, copies each and takes it away."""
    chosen = [(uid, year) for year in (2026, 2025) for uid in _done_with(year)]
    for uid, year in reversed(chosen):
        mailbox.copy("INBOX", [uid], f"Archive/{year}")
        mailbox.delete("INBOX", [uid])
    _report(len(chosen))


def deletes_newsletters():
    """Faulty: newsletters go for good."""
    _file()
    mailbox.delete("INBOX", mailbox.search("INBOX", "UNSEEN", "BODY", "stories"))
    _report()


def files_flagged():
    """Faulty: the flagged message of the lawyer goes too."""
    _file()
    mailbox.move("INBOX", _message_on_hold(), "Archive/2025")
    _report(10)


def files_unseen():
    """Faulty: files what nobody has seen."""
    _file()
    uids = mailbox.search("INBOX", "UNSEEN", "SENTBEFORE", "1-Mar-2026")
    mailbox.move("INBOX", uids, "Archive/2026")
    _report(9 + len(uids))


def idle():
    """Faulty: does nothing and claims success."""
    _report()


def leaves_originals():
    """Faulty: copies, and leaves the originals."""
    for year in (2025, 2026):
        mailbox.copy("INBOX", _done_with(year), f"Archive/{year}")
    _report()


def lost_on_the_way():
    """Faulty: one of the copies fails, and the original is deleted all the same."""
    for year in (2025, 2026):
        uids = _done_with(year)
        mailbox.copy("INBOX", uids[:-1] if year == 2026 else uids, f"Archive/{year}")
        mailbox.delete("INBOX", uids)
    _report(8)


def one_archive():
    """Faulty: all of it goes to the archive of this year."""
    for year in (2025, 2026):
        mailbox.move("INBOX", _done_with(year), "Archive/2026")
    _report()


def other_number():
    """Faulty: the right way, and a number that was not counted."""
    _file()
    _report(10)


def unflags():
    """Faulty: takes the flag away, because it looks done."""
    careful()
    mailbox.flag("INBOX", _message_on_hold(), office.FLAGGED, "-")


def unflags_for_a_while():
    """Faulty: takes the flag away to see what is left, and puts it back."""
    held = _message_on_hold()
    mailbox.flag("INBOX", held, office.FLAGGED, "-")
    filed = _file()
    mailbox.flag("INBOX", held, office.FLAGGED)
    _report(filed)
