"""Each ablation takes one part away, by the inputs alone, and shows what that part is for."""

from dataclasses import replace

import pytest
from statediff_lab.study import ablations

from statediff.capture.take import unobserved_state
from statediff.contract.file import parse_contract
from statediff.meta.faults import transient
from statediff.meta.reference import Reference
from statediff.meta.world import World
from statediff.model.readings import SourceCapture
from statediff.model.state import MemoryChunks
from statediff.model.verdict import Verdict
from tests.judging import capture, contract, part, state
from tests.meta.test_mutate import AFTER, STILL, TIGHT, reference, watched

SPELLED = TIGHT + (
    "canonicalize: [{use: trim@1, on: [item.t], because: the form adds spaces}]\n"
    "forbid: [{id: no-z, create: item, where: 'it.t == \"z\"'}]\n"
    "evidence: {db: {max_age: 5s}}\n"
)


def verdict(run: Reference) -> Verdict:
    return run.judged().verdict


def after(run: Reference, **tables: object) -> Reference:
    rows = state({**AFTER, **tables})
    return replace(run, after=capture("after", part("after", rows)))


def spaced() -> Reference:
    items = [{**row, "t": f" {row['t']} "} for row in AFTER["item"]]
    return after(reference(SPELLED), item=items)


def test_without_canonicalization_another_spelling_is_a_wrong_value():
    assert verdict(spaced()) is Verdict.MATCH
    assert verdict(ablations.without_canonicalization(spaced())) is Verdict.DIVERGE


def test_without_the_frame_what_no_clause_explains_passes():
    fewer = after(reference(TIGHT), user=AFTER["user"][:2])
    assert verdict(fewer) is Verdict.DIVERGE
    assert verdict(ablations.without_frame(fewer)) is Verdict.MATCH


def test_without_labels_what_a_clause_explains_passes_though_it_is_forbidden():
    body = TIGHT + "forbid: [{id: none-new, create: item}]\n"
    assert verdict(reference(body)) is Verdict.DIVERGE
    assert verdict(ablations.without_labels(reference(body))) is Verdict.MATCH


def test_labels_of_branches_are_dropped_as_well():
    branch = (
        "{forbid: [{id: none-new, create: item}], require: "
        "[{id: made, create: item}, {id: raised, update: item}]}"
    )
    body = f"any_of:\n  one: {branch}\n  two: {branch}\n"
    assert verdict(reference(body)) is Verdict.DIVERGE
    assert verdict(ablations.without_labels(reference(body))) is Verdict.MATCH


def test_without_freshness_a_reading_counts_however_old_it_is_and_unread_stays_unread():
    run = reference(SPELLED)
    late = replace(run, timeline=replace(run.timeline, unsettled=(("db", "in flight"),)))
    assert verdict(late) is Verdict.INCONCLUSIVE
    assert verdict(ablations.without_freshness(late)) is Verdict.MATCH
    dark = unread(run)
    assert verdict(ablations.without_freshness(dark)) is Verdict.INCONCLUSIVE


def unread(run: Reference) -> Reference:
    [one] = run.after.parts
    dark = unobserved_state(one.state.schema, MemoryChunks(), "refused", one.state)
    reading = replace(one.reading, is_complete=False, digest=None, cause="refused")
    return run.with_parts((SourceCapture(reading, dark),))


def test_without_evidence_what_was_not_read_is_as_it_was_before():
    dark = unread(reference(TIGHT))
    assert verdict(dark) is Verdict.INCONCLUSIVE
    # As before means: nothing of what is required was done.
    assert verdict(ablations.without_evidence(dark)) is Verdict.DIVERGE


def test_what_an_ablation_does_not_concern_it_leaves_as_it_is():
    run = reference(TIGHT)
    for change in (
        ablations.without_canonicalization, ablations.without_labels, ablations.without_history,
        ablations.without_identity, ablations.trusting_names,
    ):  # fmt: skip
        assert change(run) is run


def test_inputs_are_never_changed_in_place_and_a_changed_contract_has_another_digest():
    run = reference(SPELLED)
    before = (run.contract.digest, run.after.parts[0].state.digest())
    changed = ablations.without_labels(run)
    ablations.without_evidence(run)
    ablations.trusting_names(spaced())
    assert changed.contract.digest != run.contract.digest
    assert (run.contract.digest, run.after.parts[0].state.digest()) == before


def test_only_some_sections_judge_and_an_empty_rest_judges_nothing():
    fewer = after(reference(TIGHT), user=AFTER["user"][:2])
    assert verdict(ablations.only(fewer, "assertions", "require")) is Verdict.MATCH
    still = after(reference(TIGHT), item=AFTER["item"][:1])
    assert verdict(ablations.only(still, "assertions", "require")) is Verdict.DIVERGE
    assert ablations.only(still, "per-turn", "steps").judged().clauses == ()


def test_a_name_is_trusted_for_the_one_it_looks_like():
    imitated = after(
        reference(TIGHT), user=[{**AFTER["user"][0], "name": "\u0410da"}, *AFTER["user"][1:]]
    )
    assert verdict(imitated) is Verdict.DIVERGE
    assert verdict(ablations.trusting_names(imitated)) is Verdict.MATCH
    renamed = after(
        reference(TIGHT), user=[{**AFTER["user"][0], "name": "Eve"}, *AFTER["user"][1:]]
    )
    assert verdict(ablations.trusting_names(renamed)) is Verdict.DIVERGE


@pytest.mark.parametrize("noop", [True, False])
def test_a_contract_that_would_pass_doing_nothing_is_measured_not_refused(noop: bool):
    body = "forbid: [{id: none-gone, delete: item}]\n"
    file = parse_contract(contract(body, noop=noop).encode(), "c.yaml")
    run = replace(reference(TIGHT), contract=file)
    assert ablations.without_frame(run).judged().verdict is Verdict.MATCH


@pytest.mark.parametrize("body", [TIGHT + STILL, TIGHT + "evidence: {db: {history: required}}\n"])
def test_without_history_a_write_that_was_undone_never_was(body: str):
    run = watched(body)
    judgement = run.judged()
    assert judgement.verdict is Verdict.MATCH
    fault = next(transient(World(run, judgement, 0)))
    assert verdict(fault.mutant) is Verdict.DIVERGE
    assert verdict(ablations.without_history(fault.mutant)) is Verdict.MATCH
    assert verdict(ablations.without_evidence(fault.mutant)) is Verdict.DIVERGE
