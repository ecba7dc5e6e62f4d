"""The review: a reviewer sees what was found and what changed, and nothing that is personal."""

from __future__ import annotations

from typing import Any

import pytest

from statediff.errors import BundleError
from statediff.evidence import verify as v
from statediff.evidence.disclosure.review import review, same_review
from statediff.evidence.disclosure.settings import Settings, is_personal_name, settings_of
from statediff.evidence.seal import at_tier, opened, redact, reviewed, seal
from tests.evidence.test_seal import KEY, NOON, SEED, TRUST, bundle


def copy_of(made: Any, piece: Any) -> v.Verified:
    whole = seal(made, SEED, NOON, KEY.public, KEY.sign, [piece])
    return v.verify(whole.files, TRUST)


def test_one_row_has_one_name_and_another_key_gives_other_names() -> None:
    made = bundle(4)
    one, again, other = (review(made, key, Settings()) for key in (b"a", b"a", b"b"))
    assert one == again != other
    assert same_review(one, made)
    assert same_review(other, made)


def test_a_signer_cannot_seal_another_review_than_the_bundle_makes() -> None:
    made = bundle(4)
    (piece,) = reviewed(made, KEY.sign, Settings())
    assert opened(copy_of(made, piece)) == made
    hidden = {**piece.value, "changes": []}
    with pytest.raises(BundleError, match="another review"):
        opened(copy_of(made, piece._replace(value=hidden)))


def test_what_reviewers_may_see_anyway_has_no_review() -> None:
    assert not list(reviewed(bundle(4, "reviewer"), KEY.sign, Settings()))


def test_a_review_is_for_reviewers_and_the_public_copy_has_none() -> None:
    made = bundle(4)
    (piece,) = reviewed(made, KEY.sign, Settings())
    whole = seal(made, SEED, NOON, KEY.public, KEY.sign, [piece])
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
