"""A field that fewer may see than its source is withheld alone, and no digest gives it away."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from statediff.errors import BundleError, ContractError, NotReplayable, UsageError
from statediff.evidence import verify as v
from statediff.evidence.keys import SigningKey
from statediff.evidence.package import Bundle
from statediff.evidence.seal import at_tier, check_promise, opened, redact, seal
from statediff.kernel import replay
from tests.evidence.test_vectors import theirs
from tests.judging import item, run, user

KEY = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
TRUST = {"format": v.TRUST, "keys": [
    {"name": "Ada", "key": KEY.public.hex(), "roles": ["evaluator"], "from": None, "until": None}
]}  # fmt: skip
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECRET = "whispered"
OPEN = "evidence: {db: {disclose: reviewer}}"
EXCLUDED = "exclude: [{what: item.t, because: it is personal}]\n" + OPEN
JUDGED = "evidence: {db: {disclose: reviewer, fields: {item.t: auditor}}}"
BODY = "require:\n  - {id: made, create: item, set: {n: 3}}\n"


def bundle(more: str, n: int = 3) -> Bundle:
    before = {"user": [user(1)], "item": [item(1, 1, owner=1, t="murmured")]}
    made = [item(1, 1, owner=1, t=SECRET), item(2, n, owner=1, t=SECRET)]
    allowed = "" if "exclude" in more else "allow:\n  - {update: item, fields: [t]}\n"
    scan = "forbid:\n  - {id: few, that: 'count(i for i in after.item if i.n > 9) > 1'}\n"
    return run(BODY + scan + allowed + more, before, {**before, "item": made}).bundle


def copies(made: Bundle) -> dict[str, Any]:
    whole = seal(made, bytes(32), NOON, KEY.public, KEY.sign)
    trust = v.read_trust(json.dumps(TRUST).encode())
    found = v.verify(whole.files, trust)
    return {tier: redact(whole, found, at_tier(tier)) for tier in v.TIERS}


def checked(copy: Any) -> v.Verified:
    return v.verify(copy.files, v.read_trust(json.dumps(TRUST).encode()))


@pytest.mark.parametrize("more", [EXCLUDED, JUDGED])
@pytest.mark.parametrize("n", [3, 4])
def test_a_reviewer_sees_the_row_without_the_field(more: str, n: int) -> None:
    made = bundle(more, n)
    tiers = copies(made)
    reviewer = checked(tiers["reviewer"])
    assert reviewer.status == "NOT_REPLAYABLE_AT_TIER"
    shown = b"\n".join(tiers["reviewer"].files.values()).decode()
    assert SECRET not in shown
    assert "murmured" not in shown
    paths = {leaf.path: leaf for leaf in reviewer.leaves}
    fields = [leaf.value for path, leaf in paths.items() if re.search(r"/rows/\d+/fields/", path)]
    assert ["n", ["int", str(n)]] in fields  # the rest of the row is there
    with pytest.raises(NotReplayable):
        opened(reviewer)
    whole = checked(tiers["auditor"])
    assert whole.status == "VALID"
    assert opened(whole) == made
    assert opened(whole) == made  # and again, from the same leaves
    assert replay(opened(whole)).verdict.value == made.manifest["verdict"]


@pytest.mark.parametrize("more", [EXCLUDED, JUDGED])
def test_no_digest_in_a_lower_copy_is_of_what_it_withholds(more: str) -> None:
    """Neither of a file nor of a reading or a state: all else is known, so it could be guessed."""
    made = bundle(more)
    copy = checked(copies(made)["reviewer"])
    shown = json.dumps([leaf[2:] for leaf in copy.leaves])
    digests = {hashlib.sha256(made.files[name]).hexdigest() for name in made.files}
    captures = made.document("captures.json")
    digests |= {
        entry["reading"]["digest"] for side in ("before", "after") for entry in captures[side]
    }
    told = {each for use in made.manifest["applied"] for each in (use["inputs"], use["outputs"])}
    assert not {each for each in digests | told if each in shown}


def test_a_field_that_is_opened_again_leaves_the_copy_replayable() -> None:
    more = EXCLUDED.replace("personal}", "noise, disclose: reviewer}")
    made = bundle(more)
    assert "private" not in made.manifest
    reviewer = checked(copies(made)["reviewer"])
    assert reviewer.status == "VALID"
    assert replay(opened(reviewer)).verdict.value == "MATCH"


def test_a_promise_that_a_withheld_field_breaks_is_refused() -> None:
    check_promise(bundle(OPEN), {"MATCH": "reviewer"})
    for more in (EXCLUDED, JUDGED):
        with pytest.raises(UsageError, match="promises"):
            check_promise(bundle(more), {"MATCH": "reviewer"})


def test_a_whole_type_that_is_excluded_is_withheld() -> None:
    more = EXCLUDED.replace("item.t", "user")
    copy = checked(copies(bundle(more))["reviewer"])
    rows = [leaf.value for leaf in copy.leaves if "/rows/" in leaf.path]
    assert rows
    assert not [row for row in rows if isinstance(row, dict) and row["type"] == "user"]


@pytest.mark.parametrize("name", ["item.nothing", "nothing.t", "item"])
def test_a_field_that_there_is_not_is_an_error_of_the_contract(name: str) -> None:
    with pytest.raises(ContractError):
        bundle(JUDGED.replace("item.t", name))


@pytest.mark.parametrize(
    "private", [[["item"]], [["item", "t", "nobody", True]], ["x"], [[1, 2, 3, 4]]]
)
def test_a_manifest_of_another_form_is_refused(private: Any) -> None:
    made = bundle(EXCLUDED)
    with pytest.raises(BundleError, match="private"):
        seal(Bundle({**made.manifest, "private": private}, made.files), bytes(32), NOON,
             KEY.public, KEY.sign)  # fmt: skip


def test_a_bundle_that_was_made_without_it_replays_and_opens() -> None:
    made = bundle(EXCLUDED)
    older = Bundle({k: x for k, x in made.manifest.items() if k != "private"}, made.files)
    assert replay(older).verdict.value == "MATCH"
    assert opened(checked(copies(older)["reviewer"])) == older


@pytest.mark.node
def test_the_second_verifier_says_the_same_of_every_copy() -> None:
    trust = json.dumps(TRUST).encode()
    made = [copy for more in (EXCLUDED, JUDGED) for copy in copies(bundle(more)).values()]
    said = theirs([(copy.files, trust) for copy in made])
    assert said == [checked(copy).status for copy in made]
