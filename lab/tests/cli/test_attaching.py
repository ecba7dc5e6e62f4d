"""`attach`, and a second signature: what is made after a seal, and travels with it."""

from __future__ import annotations

import base64
import hashlib
import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from statediff.evidence.checkpoints import with_signatures
from statediff.evidence.keys import load_key
from statediff.evidence.notes import cosign, read_note
from statediff.evidence.package import load
from statediff.evidence.seal import SEED_BYTES, save, seal
from tests.cli.conftest import JUDGE, Call, Files, after

TRUST = ("--trust", "trust.json")


@pytest.fixture
def sealed(statediff: Call, files: Files) -> Path:
    """A sealed bundle, and a log of its verdict and its seal, with a checkpoint of both."""
    files.write("b.json", after(status="closed", other="o"))
    for words in (
        (*JUDGE, "--out", "kept"), ("keygen", "key", "--name", "Ada"),
        ("sign", "kept", "--key", "key", "--out", "sealed.zip"), ("log", "add", "log", "kept"),
        ("log", "add", "log", "sealed.zip", *TRUST),
        ("log", "checkpoint", "log", "--key", "key", "--out", "point"),
    ):  # fmt: skip
        assert statediff(*words).code in (0, 1)
    return files.folder


def test_a_proof_travels_inside_the_copy_and_through_redaction(
    statediff: Call, sealed: Path
) -> None:
    done = statediff("attach", "sealed.zip", *TRUST, "--log", "log", "--checkpoint", "point",
                     "--out", "logged.zip")  # fmt: skip
    assert (done.code, done.err) == (0, "")
    (sealed / "log").unlink()
    found = statediff("verify", "logged.zip", *TRUST, "--origin", "statediff", "--json").json
    assert (found["status"], found["sealed_in"]["entry"]) == ("VALID", 1)
    assert (found["sealed_in"]["entries"], found["sealed_in"]["witnesses"]) == (2, None)
    assert "redact" in statediff("help").out
    public = ("redact", "logged.zip", "--tier", "public", *TRUST, "--out", "public")
    assert statediff(*public).code == 0
    assert (sealed / "public" / "log.tlog-proof").exists()
    assert statediff("verify", "public", *TRUST, "--json").json["sealed_in"]["entry"] == 1
    assert statediff("replay", "logged.zip", *TRUST).code == 1


@pytest.mark.usefixtures("sealed")
def test_a_kept_bundle_has_its_proof_too(statediff: Call) -> None:
    vault, log = ("--vault", "vault"), ("--log", "log", "--checkpoint", "point")
    for words in (
        ("sign", "kept", "--key", "key", *vault, "--out", "one.kept"),
        ("log", "add", "log", "one.kept", *TRUST),
        ("log", "checkpoint", "log", "--key", "key", "--out", "point"),
        ("attach", "one.kept", *TRUST, *log, "--out", "two.kept"),
    ):  # fmt: skip
        assert statediff(*words).code == 0
    found = statediff("verify", "two.kept", *TRUST, *vault, "--json").json
    assert (found["status"], found["sealed_in"]["entry"]) == ("VALID", 2)
    assert statediff("replay", "two.kept", *TRUST, *vault).code == 1
    words = ("attach", "one.kept", *TRUST, *log, "--out", "three.zip")
    assert "stays one" in statediff(*words).err


def test_a_witness_of_the_log_counts_inside_the_copy(statediff: Call, sealed: Path) -> None:
    assert statediff("keygen", "wes", "--name", "Wes", "--role", "witness").code == 0
    note = read_note((sealed / "point").read_bytes())
    line = cosign(note.text, "example.com/wes", datetime.now(UTC), load_key(sealed / "wes"))
    (sealed / "point").write_bytes(with_signatures(note, [line]).written())
    words = ("--log", "log", "--checkpoint", "point", "--out", "logged.zip")
    assert statediff("attach", "sealed.zip", *TRUST, *words).code == 0
    done = statediff("verify", "logged.zip", *TRUST, "--witnesses", "1")
    assert (done.code, "signed by Ada, Wes at" in done.out) == (0, True)
    assert statediff("verify", "logged.zip", *TRUST, "--witnesses", "2").code == 4
    assert (
        statediff("verify", "logged.zip", *TRUST, "--json").json["sealed_in"]["witnesses"] is None
    )


@pytest.mark.usefixtures("sealed")
@pytest.mark.parametrize(
    ("copy", "words", "lack"),
    [
        ("sealed.zip", ("--origin", "statediff"), "no proof that a log has this seal"),
        ("sealed.zip", ("--witnesses", "1"), "no proof that a log has this seal"),
        ("logged.zip", ("--origin", "other"), "it is in the log statediff, not in other"),
        ("logged.zip", ("--witnesses", "1"), "trusted witnesses of the log: 0, not 1"),
        ("logged.zip", ("--authorities", "key"), "no time stamp is in this copy"),
    ],
)
def test_what_a_copy_does_not_show_is_unmet(
    copy: str, words: tuple[str, ...], lack: str, statediff: Call
) -> None:
    statediff("attach", "sealed.zip", *TRUST, "--log", "log", "--checkpoint", "point",
              "--out", "logged.zip")  # fmt: skip
    done = statediff("verify", copy, *TRUST, *words)
    assert done.code == 4
    assert f"unmet: {lack}" in done.out


def test_a_seal_that_is_dated_back_into_the_time_of_an_expired_key_is_unmet_where_time_is_asked(
    statediff: Call, sealed: Path
) -> None:
    assert statediff("keygen", "bo", "--name", "Bo").code == 0
    trust = json.loads((sealed / "trust.json").read_bytes())
    for entry in trust["keys"]:
        if entry["name"] == "Ada":
            entry["until"] = "2026-01-01T00:00:00+00:00"
    (sealed / "trust.json").write_text(json.dumps(trust))
    bundle, key = load(sealed / "kept"), load_key(sealed / "key")
    then = datetime(2025, 12, 31, tzinfo=UTC)
    save(seal(bundle, bytes(SEED_BYTES), then, key.public, key.sign), sealed / "back.zip")
    for words in (
        ("log", "add", "fresh", "back.zip", *TRUST),
        ("log", "checkpoint", "fresh", "--key", "bo", "--out", "late"),
        ("attach", "back.zip", *TRUST, "--log", "fresh", "--checkpoint", "late", "--out", "x.zip"),
        ("verify", "x.zip", *TRUST),  # by its own word it is of that time
    ):
        done = statediff(*words)
        assert done.code == 0, done.err
    asked = statediff("verify", "x.zip", *TRUST, "--origin", "statediff")
    assert asked.code == 4
    assert "unmet: it was logged at" in asked.out
    assert "when the key of Ada did not count" in asked.out


def test_a_copy_that_the_log_does_not_have_gets_no_proof(statediff: Call, sealed: Path) -> None:
    again = ("sign", "kept", "--key", "key", "--out", "again.zip")
    assert statediff(*again).code == 0
    words = ("--log", "log", "--checkpoint", "point", "--out", "logged.zip")
    assert "does not have this seal" in statediff("attach", "again.zip", *TRUST, *words).err
    assert statediff("log", "add", "log", "again.zip", *TRUST).code == 0
    assert "older than entry 2" in statediff("attach", "again.zip", *TRUST, *words).err
    assert "nothing to attach" in statediff("attach", "again.zip", *TRUST, "--out", "x.zip").err
    assert not (sealed / "logged.zip").exists()


@pytest.mark.usefixtures("sealed")
def test_a_log_takes_no_seal_that_is_not_genuine(statediff: Call) -> None:
    statediff("keygen", "eve", "--name", "Eve", "--trust", "eve.json")
    refused = statediff("log", "add", "log", "sealed.zip", "--trust", "eve.json")
    assert (refused.code, "INVALID" in refused.err) == (4, True)
    assert "whose keys count" in statediff("log", "add", "log", "sealed.zip").err
    assert len(statediff("log", "show", "log", "--json").lines) == 2


def test_as_many_have_to_sign_as_the_trust_file_asks_for(statediff: Call, sealed: Path) -> None:
    assert statediff("keygen", "bo", "--name", "Bo").code == 0
    path = sealed / "trust.json"
    keys = json.loads(path.read_text())["keys"]
    path.write_text(json.dumps({"format": "statediff/trust/1.1", "keys": keys, "threshold": 2}))
    alone = statediff("verify", "sealed.zip", *TRUST)
    assert (alone.code, "expected 2" in alone.err) == (4, True)
    second = ("sign", "sealed.zip", "--key", "bo", *TRUST, "--out", "both.zip")
    assert statediff(*second).code == 0
    found = statediff("verify", "both.zip", *TRUST, "--json").json
    assert (found["status"], sorted(found["signers"])) == ("VALID", ["Ada", "Bo"])
    third = ("sign", "both.zip", "--key", "bo", *TRUST, "--out", "three.zip")
    assert "signed it already" in statediff(*third).err
    assert statediff("keygen", "cy", "--name", "Cy").code == 0  # the threshold stays
    assert json.loads(path.read_text())["threshold"] == 2
    assert statediff("verify", "both.zip", *TRUST).code == 0


def test_a_seal_is_exported_as_in_totos_envelope(statediff: Call, sealed: Path) -> None:
    words = ("export", "sealed.zip", "--as", "in-toto", *TRUST)
    assert statediff(*words, "--out", "one.intoto.jsonl").code == 0
    with zipfile.ZipFile(sealed / "sealed.zip") as archive:
        envelope = archive.read("envelope.json")
    assert (sealed / "one.intoto.jsonl").read_bytes() == envelope + b"\n"
    assert statediff(*words).out.encode() == envelope + b"\n"


def test_a_seal_is_exported_as_a_signed_statement_of_scitt(statediff: Call, sealed: Path) -> None:
    cbor2 = pytest.importorskip("cbor2", reason="cbor2 is not installed")
    words = ("export", "sealed.zip", "--as", "scitt", *TRUST, "--key", "key", "--out", "one.cose")
    assert statediff(*words, "--issuer", "https://example.com/ada").code == 0
    data = (sealed / "one.cose").read_bytes()
    assert data[:2] == b"\xd2\x84"  # COSE_Sign1 [RFC 9052], four parts
    protected, unprotected, payload, signature = cbor2.loads(data).value
    with zipfile.ZipFile(sealed / "sealed.zip") as archive:
        envelope = json.loads(archive.read("envelope.json"))
    assert payload == base64.b64decode(envelope["payload"])
    header = cbor2.loads(protected)
    [entry] = json.loads((sealed / "trust.json").read_text())["keys"]
    assert header == {
        1: -8, 3: "application/vnd.in-toto+json",
        4: hashlib.sha256(bytes.fromhex(entry["key"])).digest(),
        15: {1: "https://example.com/ada", 2: "notes/close-ticket@1.0.0/offline"},
    }  # fmt: skip
    assert unprotected == {}
    signed = cbor2.dumps(["Signature1", protected, b"", payload])
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(entry["key"]))
    key.verify(signature, signed)
    with pytest.raises(InvalidSignature):
        key.verify(signature, signed[:-1] + b"?")


@pytest.mark.usefixtures("sealed")
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("kept", "--as", "in-toto", *TRUST), "is of a sealed copy"),
        (("sealed.zip", "--as", "in-toto"), "is of a sealed copy"),
        (("sealed.zip", "--as", "in-toto", *TRUST, "--key", "key"), "is signed anew"),
        (("sealed.zip", "--as", "scitt", *TRUST), "is signed anew"),
        (("sealed.zip", "--as", "scitt", *TRUST, "--key", "eve"), "is not the key that sealed it"),
        (("sealed.zip", "--as", "scitt", *TRUST, "--key", "key"), "is no text"),
        (("sealed.zip", "--as", "scitt", *TRUST, "--key", "key", "--issuer", "a\nb"), "issuer: "),
        (("sealed.zip", "--as", "in-toto", "--trust", "eve.json"), "INVALID"),
        (("kept", "--as", "junit", *TRUST), "are for --as in-toto"),
    ],
)
def test_what_cannot_be_exported_says_why(
    words: tuple[str, ...], why: str, statediff: Call
) -> None:
    pytest.importorskip("cbor2", reason="cbor2 is not installed")
    statediff("keygen", "eve", "--name", "Eve", "--trust", "eve.json")
    refused = statediff("export", *words)
    assert (refused.code in (2, 4), refused.out) == (True, "")
    assert why in refused.err
