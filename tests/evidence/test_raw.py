"""Raw captures are for auditors with an identity; no lower copy carries them in any form."""

from __future__ import annotations

import base64
import hashlib
import itertools
import sys
from typing import Any

import pytest

from statediff.errors import BundleError, UsageError
from statediff.evidence import verify as v
from statediff.evidence.raw import decrypted, encrypted
from statediff.evidence.seal import Sealed, at_tier, opened, redact, seal
from statediff.kernel import replay
from statediff.model.values import Digested
from tests.growing_logs import ADA, NOON, TRUST
from tests.judging import item, run

pyrage: Any = pytest.importorskip("pyrage")
AUDITOR, STRANGER = pyrage.x25519.Identity.generate(), pyrage.x25519.Identity.generate()
CONTENT = b"736451"
"""Six digits: a plain digest of them falls in a second."""


def sealed(tier: str = "reviewer") -> Sealed:
    body = "require: [{create: item}]\nevidence: {db: {disclose: TIER}}".replace("TIER", tier)
    made = run(body, {"item": []}, {"item": [item(1)]}).bundle
    to = [str(AUDITOR.to_public())]
    piece = encrypted("shop.db", CONTENT, to, lambda count: bytes(range(count)))
    return seal(made, bytes(32), NOON, ADA.public, ADA.sign, [piece])


WHOLE = sealed()
FOUND = v.verify(WHOLE.files, TRUST)
LEAF = next(leaf for leaf in FOUND.leaves if leaf.tag == v.RAW)


def test_an_auditor_with_an_identity_reads_what_was_signed() -> None:
    assert decrypted(LEAF, f"# created today\n{AUDITOR}\n") == ("shop.db", CONTENT)
    assert replay(opened(FOUND)).verdict.value == "MATCH"


def test_nobody_else_reads_it() -> None:
    with pytest.raises(UsageError, match="not encrypted to this identity"):
        decrypted(LEAF, str(STRANGER))
    with pytest.raises(UsageError, match="none of age"):
        decrypted(LEAF, "nonsense")


def test_the_digest_of_a_low_entropy_capture_tells_nothing() -> None:
    content = b"".join(WHOLE.files.values())
    assert CONTENT not in content
    salt = LEAF.salt.encode(), bytes.fromhex(LEAF.salt)
    for data in (CONTENT, *(a + CONTENT for a in salt), *(CONTENT + a for a in salt)):
        for name in ("sha256", "sha1", "md5", "blake2b"):
            assert hashlib.new(name, data).hexdigest() not in LEAF.value["payload_sha256"]
            assert hashlib.new(name, data).hexdigest().encode() not in content


@pytest.mark.parametrize("tier", ["public", "reviewer"])
def test_lower_copies_carry_it_in_no_form_and_lose_no_decision_by_it(tier: str) -> None:
    copy = redact(WHOLE, FOUND, at_tier(tier))
    found = v.verify(copy.files, TRUST)
    assert found.withheld[v.RAW] == 1
    assert found.status == ("VALID" if tier == "reviewer" else "NOT_REPLAYABLE_AT_TIER")
    if tier == "reviewer":
        assert replay(opened(found)).verdict.value == "MATCH"
    content = b"".join(copy.files.values())
    for trace in (LEAF.value["ciphertext"], LEAF.value["payload_sha256"], "shop.db"):
        assert trace.encode() not in content
    data = base64.b64decode(LEAF.value["ciphertext"])
    assert hashlib.sha256(data).hexdigest().encode() not in content


def test_bytes_told_by_digest_are_in_no_copy_but_the_capture_that_auditors_decrypt() -> None:
    secret = b"\x89PNG the bytes of one cell, and of its database file"
    body = "require: [{update: item}]\nevidence: {db: {disclose: auditor}}"
    before, after = item(1, t=Digested.of(b"")), item(1, t=Digested.of(secret))
    made = run(body, {"item": [before]}, {"item": [after]}).bundle
    piece = encrypted("shop.db", secret, [str(AUDITOR.to_public())], bytes)
    whole = seal(made, bytes(32), NOON, ADA.public, ADA.sign, [piece])
    found = v.verify(whole.files, TRUST)
    assert replay(opened(found)).verdict.value == "MATCH"
    (leaf,) = (leaf for leaf in found.leaves if leaf.tag == v.RAW)
    assert decrypted(leaf, str(AUDITOR)) == ("shop.db", secret)
    digest = hashlib.sha256(secret).hexdigest().encode()
    assert digest in b"".join(whole.files.values())
    for tier in ("reviewer", "public"):
        assert digest not in b"".join(redact(whole, found, at_tier(tier)).files.values())
    for kept in (secret, base64.b64encode(secret), secret.hex().encode()):
        assert kept not in b"".join(whole.files.values())


def test_a_ciphertext_put_in_its_place_is_noticed() -> None:
    other = pyrage.encrypt(b"another", [AUDITOR.to_public()])
    forged = LEAF._replace(value={**LEAF.value, "ciphertext": base64.b64encode(other).decode()})
    with pytest.raises(BundleError, match="not what was signed"):
        decrypted(forged, str(AUDITOR))
    data = v.leaves_file([
        v.leaf_bytes(forged if leaf.tag == v.RAW else leaf) for leaf in FOUND.leaves
    ], ())  # fmt: skip
    with pytest.raises(v.Rejected):
        v.verify({**WHOLE.files, "leaves.json": data}, TRUST)


def test_two_captures_of_one_content_have_nothing_in_common() -> None:
    noise = itertools.count()
    one, two = (
        encrypted("a", CONTENT, [str(AUDITOR.to_public())], lambda n: bytes([next(noise)] * n))
        for _ in range(2)
    )
    assert one.value["payload_sha256"] != two.value["payload_sha256"]


def test_wrong_recipients_and_a_missing_extra_are_said_plainly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for wrong in ([], ["age1nonsense"], ["ssh-rsa nonsense"]):
        with pytest.raises(UsageError):
            encrypted("a", b"", wrong, bytes)
    monkeypatch.setitem(sys.modules, "pyrage", None)
    with pytest.raises(UsageError, match=r"statediff\[age\]"):
        encrypted("a", b"", [str(AUDITOR.to_public())], bytes)
