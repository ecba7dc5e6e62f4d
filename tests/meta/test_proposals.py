"""Proposals of `mutate` close the hole, and keep the right run, as the text that is printed."""

from dataclasses import replace
from pathlib import Path

import pytest

from statediff.contract.file import parse_contract
from statediff.contract.yaml.reader import read_document
from statediff.meta.mutate import mutate, survivor_of
from statediff.meta.proposals import with_proposal
from statediff.model.verdict import Verdict
from statediff.workspace.references import recorded_run
from tests.contract.applications import RIGHT, Application
from tests.contract.drafts import drafted

LOOSE = """\
contract: drafts/loose
version: 1.0.0
owner: tests
intent: Something is changed, and nobody says what it is.
frame: {open: every hole there can be}
noop: true
forbid: [{id: nothing, that: 1 == 2}]
"""


@pytest.mark.parametrize("number", [41])
def test_a_proposal_kills_its_mutants_and_keeps_the_reference(number: int, tmp_path: Path) -> None:
    application = Application(number)
    application.make(tmp_path / "a.db")
    application.run(tmp_path / "a.db", tmp_path / "b.db", RIGHT)
    before, after = [f"db={tmp_path}/a.db"], [f"db={tmp_path}/b.db"]
    drafted(tmp_path / "task", before, after)
    loose = parse_contract(LOOSE.encode(), "loose.yaml")
    schema = tmp_path / "task" / "schema.yaml"
    reference = recorded_run(loose, before, after, None, schema=schema)
    report = mutate([reference], 0, {})
    mutants = [(survivor_of(o.fault, {})[0], o.fault.mutant) for o in report.outcomes]
    proposed = [each for each in report.survivors if each.closing]
    assert len(proposed) > 0.75 * len(report.survivors) > 10
    for survivor in proposed:
        added = read_document(survivor.closing.encode(), "c").value
        assert set(added) <= {"forbid", "require"}
        closed = with_proposal(loose, survivor.closing)
        assert replace(reference, contract=closed).judged().verdict is Verdict.MATCH
        own = [mutant for name, mutant in mutants if name == survivor.id][:2]
        for mutant in own:
            verdict = replace(mutant, contract=closed).judged().verdict
            assert verdict is Verdict.DIVERGE, (survivor.id, survivor.closing)
