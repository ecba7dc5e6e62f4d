"""Two contracts for one task: the same runs, and where they part."""

import pytest

from statediff.errors import UsageError
from statediff.meta.agree import compare_contracts, with_faults
from statediff.model.verdict import Verdict
from tests.meta.test_mutate import LOOSE, TIGHT, reference


def test_a_contract_agrees_with_itself_on_every_run():
    run = reference(TIGHT)
    found = compare_contracts(run.contract, run.contract, with_faults([run], 2, 15))
    assert len(found.cases) == 16
    assert found.differing == ()
    assert found.deciding(of_a=True) == ()


def test_a_tight_and_a_loose_contract_differ_by_the_clauses_that_the_loose_one_lacks():
    tight, loose = reference(TIGHT), reference(LOOSE)
    found = compare_contracts(tight.contract, loose.contract, with_faults([tight], 2, 40))
    assert found.differing
    assert {case.b.verdict for case in found.differing} <= {Verdict.MATCH, Verdict.INCONCLUSIVE}
    assert "frame" in dict(found.deciding(of_a=True))
    assert found.cases[0].agrees


def test_what_a_contract_refuses_to_judge_is_no_agreement():
    run = reference(TIGHT)
    other = reference(TIGHT.replace("update: item", "update: ticket")).contract
    found = compare_contracts(run.contract, other, [("as it ran", run)])
    [case] = found.differing
    assert (case.a.said, case.b.said) == ("MATCH", "refused")
    assert "ticket" in case.b.error
    both = compare_contracts(other, other, [("as it ran", run)])
    assert both.differing == both.cases


def test_contracts_that_were_compared_on_nothing_do_not_agree():
    run = reference(TIGHT)
    with pytest.raises(UsageError, match="nothing to compare"):
        compare_contracts(run.contract, run.contract, [])
