"""Recorded runs beside a contract: what is listed is there, and gets what is told of it."""

from pathlib import Path

import pytest

from statediff.contract.file import load_contract
from statediff.errors import UsageError
from statediff.meta.cases import RECORDINGS, recorded_contracts, recordings
from statediff.meta.metatest import faulty_agent_cases
from statediff.model.verdict import Verdict
from statediff.workspace.references import recorded_trial

TOLD = """\
before: state.json
after: state.json
schema: state.json
contracts:
  a.yaml:
    - {agent: right, verdict: MATCH}
"""


@pytest.mark.parametrize("path", recorded_contracts(), ids=lambda p: p.stem)
def test_each_recorded_run_gets_its_verdict_by_the_clause_and_code_told(path: Path) -> None:
    kept = recordings(path)
    assert kept is not None
    file = load_contract(path)
    assert len(kept.cases.references) == 1
    assert len(kept.cases.faulty) == 2
    for name in kept.cases.references:
        assert recorded_trial(file, kept, name).judged().verdict is Verdict.MATCH
    for case in faulty_agent_cases(
        (recorded_trial(file, kept, w.agent) for w in kept.cases.faulty), kept.cases
    ):
        assert (case.is_right, case.is_named, case.error) == (True, True, ""), case


def folder(tmp_path: Path, told: str) -> Path:
    for name in ("state.json", "a.yaml", "right.answer.json", "right.trace.jsonl"):
        (tmp_path / name).write_text("{}")
    (tmp_path / RECORDINGS).write_text(told)
    return tmp_path / "a.yaml"


def test_a_contract_that_no_recording_names_has_none(tmp_path: Path) -> None:
    contract = folder(tmp_path, TOLD)
    kept = recordings(contract)
    assert kept is not None
    assert kept.cases.references == ("right",)
    assert recordings(contract.with_name("b.yaml")) is None
    (tmp_path / RECORDINGS).unlink()
    assert recordings(contract) is None


@pytest.mark.parametrize(
    ("good", "bad", "because"),
    [
        ("before: state.json", "before: ../state.json", "before: expected a file beside it"),
        ("before: state.json\n", "", "before: expected a file beside it, found None"),
        ("before: state.json", "before: /etc/hostname", "expected a file beside it"),
        ("before: state.json", 'before: "a\\0b"', "expected a file beside it"),
        ("before:", "befor:", "expected before, after, schema and `contracts`"),
        ("a.yaml:", "../a.yaml:", "contracts: expected a file beside it"),
        ("agent: right", "agent: gone", "a run of a.yaml: expected a file beside it"),
        ("agent: right", "agent: 7", "says `agent` and `verdict`"),
        ("MATCH", "INCONCLUSIVE", "one of DIVERGE, MATCH"),
        ("    - {agent: right, verdict: MATCH}\n", "    right\n", "expected a list of cases"),
    ],
)
def test_a_broken_file_is_refused_with_its_place(
    tmp_path: Path, good: str, bad: str, because: str
) -> None:
    contract = folder(tmp_path, TOLD.replace(good, bad, 1))
    with pytest.raises(UsageError, match=RECORDINGS) as refused:
        recordings(contract)
    assert because in str(refused.value)
