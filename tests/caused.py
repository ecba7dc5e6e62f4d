"""Three engines do the same after a change: what may be changed by hand, and what only follows."""

from __future__ import annotations

from collections.abc import Callable

from statediff.capture.source import Source
from statediff.contract.file import parse_contract
from statediff.kernel import judgement_of
from statediff.model.readings import Timeline
from statediff.model.verdict import Verdict
from tests.rebuilt import read

CONTRACT = """\
contract: t/caused
version: 1.0.0
owner: desk
intent: Items come, one goes, and the first one's number changes.
noop: true
allow:
  - {id: more, update: item, fields: [qty, name], where: it.id == 1}
  - {id: new, create: item}
  - {id: gone, delete: item, where: it.id == 2}
  - {id: looked, update: seen, fields: [at]}
"""
RIGHT = (
    "UPDATE item SET qty = 7 WHERE id = 1",
    "INSERT INTO item (name) VALUES ('d')",
    "BEGIN; INSERT INTO item (name) VALUES ('d'); ROLLBACK; INSERT INTO item (name) VALUES ('e')",
    "DELETE FROM item WHERE id = 2",
    "UPDATE item SET id = 20 WHERE id = 2",
)
WRONG = (
    "UPDATE item SET price = 7 WHERE id = 1",
    "DELETE FROM part WHERE id = 2",
    "UPDATE part SET item = 3 WHERE id = 2",
    "DELETE FROM item WHERE id = 2; DELETE FROM part WHERE id = 3",
    "DELETE FROM item WHERE id = 2; UPDATE note SET item = NULL WHERE id = 3",
    "UPDATE note SET item = NULL WHERE id = 2",
    "DELETE FROM item WHERE id = 3",
)


def check(source: Source, run: str, act: Callable[[str], object], *, is_right: bool) -> None:
    before = read(source, None)
    for each in run.split("; "):
        act(each)
    after = read(source, before)
    began, ended = (capture.parts[0].reading.as_of for capture in (before, after))
    times, contract = Timeline(began, began, began, ended, ended), CONTRACT.encode()
    judged = judgement_of(parse_contract(contract, "c.yaml"), before, after, timeline=times)
    wanted = Verdict.MATCH if is_right else Verdict.DIVERGE
    assert judged.verdict is wanted, [finding.sentence for finding in judged.open]
