"""Each controlled failure of [SSD §V] is on the first screen: what is wrong, and whose doing it is.

The agents of the packs that commit them work live, without recording anything, so that what is
named is the transaction of a history. A screen is 25 lines of a terminal; of the page it is the
banner, which stands before everything else.
"""

import html
import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from statediff.packs import contract_folder
from statediff.reports.html import page
from statediff.reports.html.trial import trial_view
from statediff.reports.text import trial_report
from tests.tasks import Sandboxes, try_agent
from tests.tasks import running as running  # noqa: PLC0414 - a fixture

REFUND, EXCHANGE = "shop/refund-returned-order", "shop/exchange-or-refund"
LINES = 25
FAILURES = {
    "the correct entity with a wrong field": (
        REFUND, "wrong_field", "", "order 1009 total_cents 4200 → 300",
        "Done by: transaction shop-db/1.",
    ),
    "the correct field with a wrong principal": (
        REFUND, "wrong_principal", "", "refund 807 does not", "Done by: transaction shop-db/1.",
    ),
    "an action duplicated after a timeout": (
        REFUND, "retries", "", "refunded: refund 807 and refund 808: 7800 ≠ 3900",
        "Done by: transaction shop-db/1, transaction shop-db/2.",
    ),
    "a stale read before a write": (
        EXCHANGE, "saves_old_rows", "", "taken-from-stock: product 301",
        "Done by: transaction shop-db/1, which broke refunded/frame.",
    ),
    "an unauthorised irreversible change": (
        REFUND, "hasty", "", "customer 17 deleted", "Done by: transaction shop-db/2.",
    ),
    "a valid result with missing evidence": (
        REFUND, "careful", "outbox",
        "outbox not read: connection refused; needed by plain-letters (cause: environment)",
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("failure", FAILURES)
def test_a_controlled_failure_and_whose_it_is_stand_on_the_first_screen(
    failure: str, running: Sandboxes, tmp_path: Path
) -> None:
    task, agent, unplug, what, who = FAILURES[failure]
    trial = try_agent(running, contract_folder(task), agent, tmp_path / "t", unplug)
    bundle = trial.evaluated.bundle
    told = StringIO()
    Console(file=told, width=120).print(trial_report(bundle))
    screen = told.getvalue().splitlines()[:LINES]
    assert what in " ".join(line.strip() for line in screen)
    assert [line.strip() for line in screen if line.startswith("Done by:")] == (
        [who] if who else []
    )
    shown = page.render("trial.html", trial_view(bundle, "b"))
    banner, _, _ = shown.partition("</header>")
    words = html.unescape(re.sub(r"<[^>]*>", " ", banner))
    assert what.partition(": ")[2] in words or what in words
    assert who.removesuffix(".") in words
    assert ("Done by" in words) == bool(who)
