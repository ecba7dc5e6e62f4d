"""The review: a reviewer sees what was found and what changed, and nothing that is personal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from statediff.errors import BundleError
from statediff.evidence import verify as v
from statediff.evidence.disclosure.review import review, same_review
from statediff.evidence.disclosure.settings import Settings, is_personal_name, settings_of
from statediff.evidence.leaf_partition import Piece
from statediff.evidence.seal import at_tier, opened, redact, reviewed, seal
from statediff.reports.copies import decide_copy
from tests.evidence.test_seal import SEED, bundle
from tests.growing_logs import ADA, NOON, TRUST
from tests.judging import item, run, user


def copy_of(made: Any, piece: Any) -> v.Verified:
    whole = seal(made, SEED, NOON, ADA.public, ADA.sign, [piece])
    return v.verify(whole.files, TRUST)


def test_one_row_has_one_name_and_another_key_gives_other_names() -> None:
    made = bundle(4)
    one, again, other = (review(made, key, Settings()) for key in (b"a", b"a", b"b"))
    assert one == again != other
    assert same_review(one, made)
    assert same_review(other, made)


def test_a_signer_cannot_seal_another_review_than_the_bundle_makes() -> None:
    made = bundle(4)
    (piece,) = reviewed(made, ADA.sign, Settings())
    assert opened(copy_of(made, piece)) == made
    hidden = {**piece.value, "changes": []}
    with pytest.raises(BundleError, match="another review"):
        opened(copy_of(made, piece._replace(value=hidden)))


def test_what_reviewers_may_see_anyway_has_no_review() -> None:
    assert not list(reviewed(bundle(4, "reviewer"), ADA.sign, Settings()))


def test_a_review_is_for_reviewers_and_the_public_copy_has_none() -> None:
    made = bundle(4)
    (piece,) = reviewed(made, ADA.sign, Settings())
    whole = seal(made, SEED, NOON, ADA.public, ADA.sign, [piece])
    for tier in v.TIERS:
        cut = redact(whole, v.verify(whole.files, TRUST), at_tier(tier))
        shown = {leaf.path for leaf in v.verify(cut.files, TRUST).leaves}
        assert (v.REVIEW in shown) == (tier != "public")
    with pytest.raises(v.Rejected):
        copy_of(made, piece._replace(tag="public/review"))


@pytest.mark.parametrize("name", ["salary", "homePhone", "birth_date", "Email", "billing-address"])
def test_a_name_that_is_about_a_person(name: str) -> None:
    assert is_personal_name(name)


@pytest.mark.parametrize("name", ["status", "total", "due_at", "package", "image", "message"])
def test_a_name_that_is_not(name: str) -> None:
    assert not is_personal_name(name)


def test_the_file_goes_before_the_default() -> None:
    said = settings_of({"shown": ["person.salary"], "secret": ["code"]})
    assert said.why("person", "salary") is None
    assert said.why("boss", "salary") == "personal"
    assert said.why("person", "code") == "secret"


FEW = "forbid:\n  - {id: few, that: 'any(i.n > 3 for i in after.item)'}\nallow: [{create: item}]\n"


def reviewers(made: Any, value: Any) -> v.Verified:
    """The reviewer's copy of a bundle, sealed with this review."""
    piece = Piece("reviewer/review", v.REVIEW, value)
    whole = seal(made, SEED, NOON, ADA.public, ADA.sign, [piece])
    found = v.verify(whole.files, TRUST)
    return v.verify(redact(whole, found, at_tier("reviewer")).files, TRUST)


def test_what_is_shown_is_decided_again_and_a_comparison_that_lies_is_disputed() -> None:
    made = run(FEW, {"item": []}, {"item": [item(1, 4, t="whispered")]}).bundle
    shown = review(made, b"key", Settings())
    decided = decide_copy(reviewers(made, shown))
    assert (decided.compared, decided.disputed, decided.withheld) == (1, (), 0)
    text = json.dumps(shown)
    assert text.count('["int", "4"]') >= 1
    lying = json.loads(text.replace('["int", "4"]', '["int", "2"]'))
    (told,) = decide_copy(reviewers(made, lying)).disputed
    assert told == "2 > 3 is said to be HOLDS and is FAILS"
    hidden = review(made, b"key", Settings(personal=frozenset({"item.n"})))
    assert decide_copy(reviewers(made, hidden)).withheld == 1


def test_no_number_that_a_clause_compares_as_a_key_is_shown() -> None:
    """The keys of rows are withheld where they are compared too; quantities are not."""
    body = (
        'forbid:\n  - {id: own, that: \'any(i.owner == u.id and u.role == "boss" and i.n > 7 '
        "for i in after.item for u in after.user)'}\nallow: [{create: item}]\n"
    )
    before = {"user": [user(73645, role="boss")], "item": []}
    made = run(body, before, {**before, "item": [item(5150, 9, owner=73645)]}).bundle
    assert made.manifest["verdict"] == "DIVERGE"
    text = json.dumps(review(made, b"key", Settings()))
    assert "73645" not in text
    assert "5150" not in text
    assert '["int", "9"]' in text
