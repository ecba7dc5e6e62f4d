"""A finding and an error name the stage of the evaluator that they are about [SSD §V, §VII]."""

import pytest

from statediff.contract.file import parse_contract
from statediff.errors import BundleError, ContractError, NotReplayable, UsageError
from statediff.kernel import evaluate
from statediff.meta.metatest import Part, bound_faults, metatest, stage_faults
from statediff.meta.stage_cases import bundle_of, digested_texts, remove_item
from statediff.meta.world import World
from statediff.reports.wording.worded import worded_judgement
from tests.judging import contract
from tests.meta.test_mutate import TIGHT, reference

STAGES = {"capture", "resolve", "canonicalize", "diff", "policy", "evidence"}


def test_every_stage_of_the_evaluator_is_seeded_and_names_itself() -> None:
    forbidding = f"forbid: [{{id: none-deleted, delete: [user, item]}}]\n{TIGHT}"
    cases = metatest([reference(forbidding)], 3, {})
    staged = [case for case in cases if case.part is Part.STAGE]
    assert {case.kind for case in staged} == STAGES
    assert all(case.is_right and case.is_named for case in staged)


def worded_components(stage: str, operator: str) -> dict[str, str]:
    """Clause → component, of the findings that do not hold, as every report gets them."""
    whole = reference(TIGHT)
    world = World(whole, whole.judged(), 3)
    faults = [*((s, f) for s, f, _ in stage_faults(world)), *bound_faults(world)]
    fault = next(f for s, f in faults if (s, f.operator) == (stage, operator))
    judged = worded_judgement(bundle_of(fault.mutant))
    return {f["clause"]: f["component"] for f in judged["findings"] if f["truth"] != "HOLDS"}


@pytest.mark.parametrize(
    ("stage", "operator"),
    [
        ("capture", "missing"),
        ("resolve", "one-natural-key"),
        ("canonicalize", "digested-text"),
        ("diff", "incomparable-rows"),
    ],
)
def test_what_keeps_a_clause_open_is_owned_by_the_stage_that_could_not_say(
    stage: str, operator: str
) -> None:
    assert worded_components(stage, operator)["frame"] == stage


def test_what_is_decided_is_owned_by_policy_wherever_it_was_hidden() -> None:
    assert set(worded_components("diff", "altered-in-other-chunks").values()) == {"policy"}


def test_a_bundle_records_the_component_of_the_code_so_that_older_ones_replay() -> None:
    whole = reference(TIGHT)
    world = World(whole, whole.judged(), 3)
    fault = next(iter(digested_texts(world)))
    found = bundle_of(fault.mutant).document("judgement.json")["findings"]
    assert {f["component"] for f in found if f["truth"] == "UNKNOWN"} == {"capture"}


def test_an_error_about_a_bundle_is_of_the_evidence_stage() -> None:
    assert BundleError("damaged").component == NotReplayable("older").component == "evidence"
    removal = remove_item(bundle_of(reference(TIGHT)), "captures.json#/after/0")
    assert removal.verdict is None
    assert removal.refused


@pytest.mark.parametrize(
    ("section", "component"),
    [
        ("canonicalize: [{use: nfc@9, on: [item.t], because: a reason}]\n", "canonicalize"),
        (
            "identify: [{type: item, match_on: {nothing: null}, version: 1, because: a reason}]\n",
            "resolve",
        ),
        ("exclude: [{what: item.nothing, because: a reason}]\n", ""),
    ],
)
def test_a_contract_that_one_stage_cannot_use_names_it(section: str, component: str) -> None:
    file = parse_contract(contract(TIGHT + section, noop=False).encode(), "c.yaml")
    whole = reference(TIGHT)
    with pytest.raises(ContractError) as error:
        evaluate(
            file, whole.before, whole.after, trace=whole.trace, answer=whole.answer,
            timeline=whole.timeline, facts=whole.facts,
        )  # fmt: skip
    assert error.value.component == component
    assert UsageError("no such file").component == ""
