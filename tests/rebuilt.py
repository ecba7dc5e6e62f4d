"""One table in three engines: what says the same in other words, and what is lost."""

from __future__ import annotations

from statediff.capture.source import Source, clock
from statediff.capture.take import take
from statediff.contract.file import parse_contract
from statediff.kernel import judgement_of
from statediff.model.readings import Capture
from statediff.model.state import MemoryChunks
from statediff.model.verdict import Verdict

MAY_CHANGE = """\
contract: t/rebuilt
version: 1.0.0
owner: desk
intent: The text that defines a table may change, and nothing that it asks of rows.
noop: true
forbid: [{id: roles, delete: db.role}]
allow: [{id: text, update: db.table, fields: [definition]}]
"""
OF_ONE_MEANING = (
    ("qty > 0", "qty>0"),
    ("qty > 0", "qty > 0 /* some */"),
)
LOST = (
    ("qty > 0", "qty > 1"),
    ("qty > 0", "qty > 0 OR price > 0"),
    (" NOT NULL", ""),
    (" DEFAULT 'x'", ""),
    ("DEFAULT 'x'", "DEFAULT 'X'"),
    (" ON DELETE CASCADE", ""),
    ("qty * price", "qty + price"),
    ("qty > 1", "qty > 2"),
)


def read(source: Source, like: Capture | None) -> Capture:
    """The source now; `like` is what it was before."""
    moment = "before" if like is None else "after"
    return take([source], MemoryChunks(), clock, like, moment)


def verdict(before: Capture, after: Capture) -> Verdict:
    """The verdict on everything else, where a definition may change."""
    return judgement_of(parse_contract(MAY_CHANGE.encode(), "c.yaml"), before, after).verdict
