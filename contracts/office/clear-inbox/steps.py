"""The parts of the right way, and what agents of this task do wrong with them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as office

mailbox = office.Mailbox()


def done_with(year: int) -> list[int]:
    """UIDs of the seen, unflagged messages of the inbox from that year, before March 2026."""
    until = "1-Mar-2026" if year == 2026 else f"1-Jan-{year + 1}"
    dates = ("SENTSINCE", f"1-Jan-{year}", "SENTBEFORE", until)
    return mailbox.search("INBOX", "SEEN", "UNFLAGGED", *dates)


def file() -> int:
    """All that is done with is in the archive; how many that are."""
    years = {year: done_with(year) for year in (2025, 2026)}
    for year, uids in years.items():
        mailbox.move("INBOX", uids, f"Archive/{year}")
    return sum(map(len, years.values()))


def report(filed: int = 9) -> None:
    """The answer is handed in, with what is left as it is now."""
    office.answer(filed=filed, left=len(mailbox.messages("INBOX")))
