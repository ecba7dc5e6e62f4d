"""One signature over every copy: what was changed is INVALID, what is withheld is not replayed."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from statediff.errors import BundleError, NotReplayable, UsageError
from statediff.evidence import verify as v
from statediff.evidence.canonical import MAX_DEPTH, read, write
from statediff.evidence.keys import (
    SigningKey,
    add_trust,
    generate,
    load_key,
    load_trust,
    trust_entry,
)
from statediff.evidence.leaf_partition import joined, pieces
from statediff.evidence.seal import Sealed, at_tier, load, opened, redact, save, seal
from statediff.kernel import replay
from tests.growing_logs import ADA, EVE, NOON, TRUST
from tests.judging import item, run, user

SEED = bytes(range(100, 132))

BODY = """\
inputs: {n: 3}
require:
  - {id: made, create: item, where: 'it.owner.role == "user"', set: {n: {is: input.n}}}
evidence:
  db: {disclose: TIER}
answer: {schema: {n: int}, claims: ['answer.n == input.n']}
"""
SECRET = 736451


def bundle(n: int = 3, tier: str = "auditor") -> Any:
    before = {"user": [user(1), user(2)], "item": [item(1, 1, owner=1)]}
    after = {**before, "item": [*before["item"], item(SECRET, n, owner=1, t="whispered")]}
    return run(BODY.replace("TIER", tier), before, after, answer={"n": 3}).bundle


def sealed(n: int = 3, tier: str = "auditor", key: SigningKey = ADA) -> Sealed:
    return seal(bundle(n, tier), SEED, NOON, key.public, key.sign)


def status(copy: Sealed, trust: Iterable[v.Signer] = TRUST) -> str:
    try:
        return v.verify(copy.files, tuple(trust)).status
    except v.Rejected:
        return "INVALID"


def with_file(copy: Sealed, name: str, change: Callable[[Any], Any]) -> Sealed:
    document = json.loads(copy.files[name])
    changed = change(document)
    return Sealed({**copy.files, name: write(document if changed is None else changed)})


WHOLE = {n: sealed(n) for n in (3, 4)}


@pytest.mark.parametrize(("n", "verdict"), [(3, "MATCH"), (4, "DIVERGE")])
def test_a_sealed_bundle_opens_to_the_same_bytes_and_the_same_verdict(n: int, verdict: str) -> None:
    found = v.verify(WHOLE[n].files, TRUST)
    assert (found.status, found.signers, found.withheld) == ("VALID", ("Ada",), {})
    assert found.manifest["verdict"] == verdict
    again = opened(found)
    assert again == bundle(n)
    assert replay(again).verdict.value == verdict


def test_the_same_inputs_give_the_same_bytes_and_another_seed_gives_other_hashes() -> None:
    assert sealed().files == WHOLE[3].files
    other = seal(bundle(), bytes(32), NOON, ADA.public, ADA.sign)
    one, two = (json.loads(s.files["manifest.json"])["tree"]["root"] for s in (other, WHOLE[3]))
    assert one != two


@pytest.mark.parametrize("tier", v.TIERS)
def test_every_tier_verifies_under_the_same_signature(tier: str) -> None:
    whole = WHOLE[3]
    copy = redact(whole, v.verify(whole.files, TRUST), at_tier(tier))
    assert {copy.files[n] == whole.files[n] for n in ("manifest.json", "envelope.json")} == {True}
    found = v.verify(copy.files, TRUST)
    assert found.status == ("VALID" if tier == "auditor" else "NOT_REPLAYABLE_AT_TIER")
    assert all(at_tier(tier)(leaf) for leaf in found.leaves)
    assert found.manifest["verdict"] == "MATCH"


def test_a_source_that_reviewers_may_see_makes_their_copy_replayable() -> None:
    whole = sealed(tier="reviewer")
    copy = redact(whole, v.verify(whole.files, TRUST), at_tier("reviewer"))
    assert status(copy) == "VALID"
    assert replay(opened(v.verify(copy.files, TRUST))).verdict.value == "MATCH"
    public = redact(whole, v.verify(whole.files, TRUST), at_tier("public"))
    assert status(public) == "NOT_REPLAYABLE_AT_TIER"


@pytest.mark.parametrize("tier", ["public", "reviewer"])
def test_what_only_auditors_may_see_is_not_in_a_lower_copy_in_any_form(tier: str) -> None:
    whole = WHOLE[3]
    copy = redact(whole, v.verify(whole.files, TRUST), at_tier(tier))
    content = b"".join(copy.files.values())
    for secret in (str(SECRET), "whispered"):
        assert secret.encode() in b"".join(whole.files.values())
        assert secret.encode() not in content
        for form in (secret, json.dumps(secret), write(["int", secret]), write(["text", secret])):
            data = form if isinstance(form, bytes) else form.encode()
            for name in ("sha256", "sha1", "md5", "blake2b"):
                assert hashlib.new(name, data).hexdigest().encode() not in content
    for name, data in bundle().files.items():  # a digest of few possible contents tells them
        if name not in ("contract.yaml", "schema.json", "timeline.json"):
            assert hashlib.sha256(data).hexdigest().encode() not in content


def test_redacting_twice_is_redacting_to_the_lower_tier() -> None:
    whole = WHOLE[3]
    reviewer = redact(whole, v.verify(whole.files, TRUST), at_tier("reviewer"))
    twice = redact(reviewer, v.verify(reviewer.files, TRUST), at_tier("public"))
    once = redact(whole, v.verify(whole.files, TRUST), at_tier("public"))
    assert twice.files == once.files


@given(st.data())
def test_no_choice_of_withheld_leaves_gives_another_verdict(data: st.DataObject) -> None:
    whole = WHOLE[data.draw(st.sampled_from([3, 4]))]
    found = v.verify(whole.files, TRUST)
    paths = [leaf.path for leaf in found.leaves]
    gone = data.draw(st.sets(st.sampled_from(paths), min_size=1))
    copy = redact(whole, found, lambda leaf: leaf.path not in gone)
    again = v.verify(copy.files, TRUST)
    assert again.status == "NOT_REPLAYABLE_AT_TIER"
    assert sum(again.withheld.values()) == len(gone)
    with pytest.raises(NotReplayable):
        opened(again)


@given(st.data())
def test_leaves_that_are_simply_left_out_make_the_copy_invalid(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(v.verify(WHOLE[3].files, TRUST).leaves) - 1))
    assert status(with_file(WHOLE[3], "leaves.json", lambda d: d["disclosed"].pop(at) and d)) == (
        "INVALID"
    )


@given(st.sampled_from(v.FILES), st.integers(0), st.integers(1, 255), st.sampled_from("xid"))
def test_no_changed_byte_is_accepted(name: str, place: int, bits: int, how: str) -> None:
    content = bytearray(WHOLE[3].files[name])
    at = place % len(content)
    if how == "x":
        content[at] ^= bits
    elif how == "i":
        content.insert(at, bits)
    else:
        del content[at]
    assert status(Sealed({**WHOLE[3].files, name: bytes(content)})) == "INVALID"


def test_leaves_of_another_bundle_do_not_fit() -> None:
    mixed = Sealed({**WHOLE[3].files, "leaves.json": WHOLE[4].files["leaves.json"]})
    assert status(mixed) == "INVALID"
    swapped = Sealed({**WHOLE[3].files, "manifest.json": WHOLE[4].files["manifest.json"]})
    assert status(swapped) == "INVALID"


@pytest.mark.parametrize(
    ("trust", "why"),
    [
        ((), "not trusted"),
        ((v.Signer("Eve", EVE.public, ("evaluator",), None, None),), "not trusted"),
        ((v.Signer("Ada", ADA.public, ("reviewer",), None, None),), "not trusted as evaluator"),
        ((v.Signer("Ada", ADA.public, ("evaluator",), NOON + timedelta(1), None),), "not valid"),
        ((v.Signer("Ada", ADA.public, ("evaluator",), None, NOON),), "not valid"),
    ],
)
def test_only_a_trusted_key_of_that_role_at_that_time_counts(
    trust: tuple[v.Signer, ...], why: str
) -> None:
    with pytest.raises(v.Rejected, match=why):
        v.verify(WHOLE[3].files, trust)


def test_a_signature_by_somebody_else_under_a_trusted_name_does_not_fit() -> None:
    forged = seal(bundle(), SEED, NOON, ADA.public, EVE.sign)
    with pytest.raises(v.Rejected, match="does not fit"):
        v.verify(forged.files, TRUST)


def test_an_envelope_has_one_signature_so_that_none_can_be_taken_away() -> None:
    import base64  # noqa: PLC0415 - only here

    payload = base64.b64decode(json.loads(WHOLE[3].files["envelope.json"])["payload"])

    def entry(key: SigningKey) -> dict[str, str]:
        signature = base64.b64encode(key.sign(v.signed_bytes(payload))).decode()
        return {"keyid": v.key_id(key.public), "sig": signature}

    more = (*TRUST, v.Signer("Bo", EVE.public, ("evaluator",), None, None))
    for key in (ADA, EVE):
        second = entry(key)
        both = with_file(WHOLE[3], "envelope.json", lambda d, s=second: d["signatures"].append(s))
        assert status(both, more) == "INVALID"


def test_a_manifest_that_says_another_verdict_than_its_leaves_is_refused_at_every_tier() -> None:
    lying = replace(bundle(), manifest={**bundle().manifest, "verdict": "DIVERGE"})
    whole = seal(lying, SEED, NOON, ADA.public, ADA.sign)
    leaves = json.loads(whole.files["leaves.json"])["disclosed"]
    public = [write(each) for each in leaves if each[0] == "public/summary"]
    hidden = sorted(v.leaf_hash(write(each)).hex() for each in leaves if write(each) not in public)
    for data in (whole.files["leaves.json"], v.leaves_file(public, hidden)):
        with pytest.raises(v.Rejected, match="do not make the manifest's DIVERGE"):
            v.verify({**whole.files, "leaves.json": data}, TRUST)


def test_the_pieces_of_a_bundle_give_it_back_and_every_named_array_is_cut() -> None:
    made = bundle()
    cut = list(pieces(made))
    assert len({piece.path for piece in cut}) == len(cut)
    assert joined(v.Leaf(p.tag, "", p.path, p.value) for p in cut) == made
    assert {p.path.partition("#")[0] for p in cut if not p.path.endswith("#")} <= {
        name for name, cut in v.PIECES.items() if cut
    }


def test_the_verifier_needs_nothing_of_statediff(tmp_path: Path) -> None:
    (tmp_path / "alone.py").write_bytes(Path(v.__file__).read_bytes())
    save(WHOLE[3], tmp_path / "copy")
    program = (
        "import sys, alone, pathlib\n"
        "files = {p.name: p.read_bytes() for p in pathlib.Path('copy').iterdir()}\n"
        f"trust = [alone.Signer('Ada', bytes.fromhex('{ADA.public.hex()}'), ('evaluator',),"
        " None, None)]\n"
        "print(alone.verify(files, trust).status)\n"
        "print(sorted(m for m in sys.modules if m.startswith('statediff')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("VALID\n[]\n", "")


def test_a_key_with_a_passphrase_opens_by_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, path = tmp_path / "said", tmp_path / "key"
    said.write_bytes(b"correct horse\n")
    said.chmod(0o600)
    made = generate(path, b"correct horse")
    assert b"ENCRYPTED" in path.read_bytes()
    with pytest.raises(UsageError, match="nobody can be asked; name a file"):
        load_key(path)
    monkeypatch.setenv("STATEDIFF_PASSPHRASE_FILE", str(said))
    assert load_key(path).public == made.public
    said.write_bytes(b"battery staple\n")
    with pytest.raises(UsageError, match="does not open the key"):
        load_key(path)
    said.write_bytes(b"\n")
    with pytest.raises(UsageError, match="the passphrase is empty"):
        load_key(path)
    said.chmod(0o644)
    with pytest.raises(UsageError, match="others can read this passphrase"):
        load_key(path)


# Zips


def test_a_zip_holds_the_same_copy_and_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    save(WHOLE[3], tmp_path / "copy.zip")
    assert load(tmp_path / "copy.zip") == WHOLE[3]
    assert (tmp_path / "copy.zip").read_bytes() == WHOLE[3].archive()


def archive(*entries: tuple[str, bytes], how: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", how) as made:
        for name, data in entries:
            made.writestr(zipfile.ZipInfo(name), data, how)
    return buffer.getvalue()


FILES3 = tuple(sorted(WHOLE[3].files.items()))
HOSTILE = {
    "compressed": archive(*FILES3, how=zipfile.ZIP_DEFLATED),
    "a bomb": archive(("leaves.json", bytes(50_000_000)), how=zipfile.ZIP_DEFLATED),
    "a file too many": archive(*FILES3, ("more.json", b"{}")),
    "climbs out": archive(*FILES3[:2], ("../manifest.json", FILES3[2][1])),
    "junk before": b"#!/bin/sh\n" + WHOLE[3].archive(),
    "junk behind": WHOLE[3].archive() + b"more",
    "a comment": WHOLE[3].archive()[:-2] + b"\x01\x00x",
    "cut short": WHOLE[3].archive()[:-30],
    "not a zip": b"PK\x03\x04 not at all",
    "empty": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_zip_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(HOSTILE[name])
    with pytest.raises(BundleError):
        load(tmp_path / "x.zip")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_zip_with_a_name_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(archive(*FILES3, FILES3[0]))
    with pytest.raises(BundleError):
        load(tmp_path / "x.zip")


@given(st.integers(0), st.integers(1, 255))
def test_no_changed_byte_of_a_zip_is_accepted(place: int, bits: int) -> None:
    data = bytearray(WHOLE[3].archive())
    data[place % len(data)] ^= bits
    try:
        files = v.unzipped(bytes(data))
    except v.Rejected:
        return
    assert status(Sealed(files)) == "INVALID"


def test_a_link_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    save(WHOLE[3], tmp_path / "copy")
    (tmp_path / "elsewhere").write_bytes(WHOLE[3].files["leaves.json"])
    (tmp_path / "copy" / "leaves.json").unlink()
    (tmp_path / "copy" / "leaves.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BundleError, match="regular file"):
        load(tmp_path / "copy")


# Keys


def test_a_key_is_for_its_owner_only_and_never_overwritten(tmp_path: Path) -> None:
    made = generate(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert load_key(tmp_path / "key").public == made.public
    with pytest.raises(UsageError, match="never overwritten"):
        generate(tmp_path / "key")
    (tmp_path / "key").chmod(0o644)
    with pytest.raises(UsageError, match="chmod 600"):
        load_key(tmp_path / "key")


def test_what_is_no_key_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"nonsense")
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(UsageError, match="PEM"):
        load_key(tmp_path / "key")
    with pytest.raises(UsageError, match="cannot be read"):
        load_key(tmp_path / "none")
    assert "secret" not in repr(ADA)


def test_a_trust_file_grows_and_names_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "trust.json"
    add_trust(path, trust_entry("Ada", ADA.public, ["evaluator"]))
    add_trust(path, trust_entry("Bo", EVE.public, ["reviewer"]))
    assert [(s.name, s.roles) for s in load_trust(path)] == [
        ("Ada", ("evaluator",)),
        ("Bo", ("reviewer",)),
    ]
    with pytest.raises(UsageError, match="already trusts"):
        add_trust(path, trust_entry("Ada", EVE.public, ["evaluator"]))


@pytest.mark.parametrize(
    "text",
    [
        "", "[" * 100_000, '{"format":"statediff/trust/1","keys":[],"keys":[]}',
    ],
)  # fmt: skip
def test_a_broken_trust_file_is_a_usage_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(text)
    with pytest.raises(UsageError):
        load_trust(tmp_path / "t")


# Canonical form: one encoder, and two readers of what it writes.

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_what_rfc_8785_says_is_written_and_nothing_else_is_read(document: Any) -> None:
    data = write(document)
    assert data == rfc8785.dumps(document)
    assert v.parse(data, "x") == read(data, "x") == document
    spaced = json.dumps(document, separators=(", ", ": ")).encode()
    for other in {spaced, data + b"\n"} - {data}:
        is_refused(other)


def is_refused(data: bytes) -> None:
    with pytest.raises(v.Rejected):
        v.parse(data, "x")
    with pytest.raises(BundleError):
        read(data, "x")


@given(st.binary(max_size=60))
def test_whatever_is_read_is_canonical(data: bytes) -> None:
    try:
        document = v.parse(data, "x")
    except v.Rejected:
        return
    assert v.canonical(document) == data


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"a":1}', b'{"b":1,"a":1}', b"1.0", b"1e3", b"-0", b"NaN", b"1e400", b" 1", b"1 ",
        b'"\\ud800"', b'"\\u0041"', b"9007199254740993", b"[" * 300 + b"]" * 300, b"\xff", b"",
        b'\xef\xbb\xbf"a"', b"[1,]", b'{"a":1,}', b"[1", b"nul", b"[ 1]", b"9007199254740992",
    ],
)  # fmt: skip
def test_other_forms_are_refused(data: bytes) -> None:
    is_refused(data)


def test_a_file_of_a_bundle_is_nested_no_deeper_than_it_may_be() -> None:
    assert read(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, "x")
    with pytest.raises(BundleError):
        read(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "x")
