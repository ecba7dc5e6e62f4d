"""The counterexample: a finding with clause and evidence, signed, for whom the contract says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from statediff.errors import BundleError
from statediff.evidence import verify as v
from statediff.evidence.counterexample import MAX_DELTAS, counterexample
from statediff.evidence.leaf_partition import pieces
from statediff.evidence.seal import Sealed, at_tier, opened, redact, seal
from statediff.model.explanation import Reason
from statediff.model.sentences import sentence_of
from tests.evidence.test_seal import SEED, bundle
from tests.growing_logs import ADA, NOON, TRUST
from tests.judging import CUT, TIMELINE, item, run, state, user

BEFORE = {"user": [user(1), user(2, name="Bo")], "item": [item(1, owner=1)]}
GONE = {"user": [user(1)], "item": [item(1, owner=1)]}
BODY = """\
forbid:
  - {id: no-users, delete: user}
evidence:
  db: {disclose: TIER}
"""


def trial(after: Any = GONE, body: str = BODY, tier: str = "auditor") -> Any:
    return run(body.replace("TIER", tier), BEFORE, after, timeline=TIMELINE).bundle


def leaf(found: Any) -> Any:
    return next((piece for piece in pieces(found) if piece.path == v.COUNTEREXAMPLE), None)


def copy(found: Any, tier: str) -> v.Verified:
    sealed = seal(found, SEED, NOON, ADA.public, ADA.sign)
    cut = redact(sealed, v.verify(sealed.files, TRUST), at_tier(tier))
    return v.verify(cut.files, TRUST)


def test_it_names_the_clause_what_was_found_the_entities_and_the_evidence() -> None:
    found = leaf(trial()).value
    assert (found["clause"], found["truth"]) == ("no-users", "FAILS")
    assert sentence_of(found["explanation"]) == "user 2 deleted"
    assert not {"sentence", "asked"} & found.keys(), "what is signed holds no sentence"
    assert [delta["id"] for delta in found["deltas"]] == ["user[2]"]
    assert found["evidence"]
    assert [(row["type"], row["key"]) for row in found["witness"]["rows"]] == [
        ("user", [["int", "2"]])
    ]


def test_a_run_that_matches_has_none() -> None:
    assert leaf(trial(BEFORE)) is None


def test_of_what_is_unknown_it_shows_what_is_missing() -> None:
    found = leaf(trial(state(BEFORE, {"user": CUT}))).value
    assert (found["clause"], found["truth"]) == ("no-users", "UNKNOWN")
    assert found["missing"]


def test_it_stays_small_however_much_changed() -> None:
    before = {"user": [user(n) for n in range(500)], "item": []}
    bundle_ = run(BODY.replace("TIER", "auditor"), before, {"user": [], "item": []}).bundle
    found = leaf(bundle_).value
    assert len(found["deltas"]) == MAX_DELTAS
    assert len(found["deltas"]) + found["more_deltas"] == 500
    assert len(json.dumps(found)) < 20_000


@pytest.mark.parametrize("tier", v.TIERS)
def test_it_is_seen_by_whom_the_contract_opens_its_sources_to(tier: str) -> None:
    found = trial(tier=tier)
    for reader in v.TIERS:
        shown = {each.path for each in copy(found, reader).leaves}
        assert (v.COUNTEREXAMPLE in shown) == (v.TIERS.index(reader) >= v.TIERS.index(tier))


TWO = """\
forbid:
  - {id: no-users, delete: user, where: 'it.id > count(i for i in before.item)'}
evidence:
  db: {disclose: public}
"""


def test_what_its_clause_read_of_a_closed_source_closes_it_too() -> None:
    """A secret of another source must not be told by the finding that depends on it."""
    found = trial(body=TWO)
    documents = {name: found.document(name) for name in ("schema.json", "judgement.json")}
    assert leaf(found).tag == "public/counterexample"
    schema = documents["schema.json"]
    schema["sources"] = [["db", ["user"]], ["vault", ["item"]]]
    from statediff.evidence.canonical import write  # noqa: PLC0415
    from statediff.evidence.package import Bundle  # noqa: PLC0415

    split = Bundle(found.manifest, {**found.files, "schema.json": write(schema)})
    assert leaf(split).tag == "auditor/counterexample"


def test_what_is_missing_is_told_to_whoever_may_see_every_source() -> None:
    found = leaf(trial(state(BEFORE, {"user": CUT}), tier="public"))
    assert found.value["missing"]
    assert found.tag == "reviewer/counterexample"


def test_what_depends_on_the_answer_counts_as_every_source() -> None:
    body = BODY + "answer: {schema: {n: int}, claims: ['answer.n == 1']}\n"
    found = run(body.replace("TIER", "public"), BEFORE, BEFORE, answer={"n": 2}).bundle
    assert leaf(found).value["stage"] == "answer"
    assert leaf(found).tag == "reviewer/counterexample"


def test_it_is_signed_and_no_other_can_be_put_in_its_place() -> None:
    sealed = seal(trial(), SEED, NOON, ADA.public, ADA.sign)
    verified = v.verify(sealed.files, TRUST)
    assert verified.manifest["tree"]["tags"]["auditor/counterexample"] == 1
    assert opened(verified).digest == trial().digest
    changed = {**sealed.files}
    changed["leaves.json"] = changed["leaves.json"].replace(b'"is":"change"', b'"is":"update"')
    with pytest.raises(v.Rejected):
        v.verify(changed, TRUST)


def test_a_signer_cannot_seal_another_counterexample_than_the_bundle_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from statediff.evidence import leaf_partition as cuts  # noqa: PLC0415

    def lying(judgement: Any) -> Any:
        return {**counterexample(judgement), "explanation": Reason.ENOUGH().document()}

    with monkeypatch.context() as patched:
        patched.setattr(cuts, "counterexample", lying)
        sealed = seal(trial(), SEED, NOON, ADA.public, ADA.sign)
    with pytest.raises(BundleError, match="other pieces"):
        opened(v.verify(sealed.files, TRUST))


def test_a_bundle_that_was_sealed_before_there_were_any_still_opens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from statediff.evidence import leaf_partition as cuts  # noqa: PLC0415

    with monkeypatch.context() as patched:
        patched.setattr(cuts, "counterexample", lambda _judgement: None)
        sealed: Sealed = seal(bundle(4), SEED, NOON, ADA.public, ADA.sign)
    verified = v.verify(sealed.files, TRUST)
    assert v.COUNTEREXAMPLE not in {each.path for each in verified.leaves}
    assert opened(verified).digest == bundle(4).digest
