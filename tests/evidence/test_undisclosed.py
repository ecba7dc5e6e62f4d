"""A replay needs what a bundle does not show, and nothing else shows it to anybody."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from statediff.errors import BundleError, NotReplayable, UsageError
from statediff.evidence import verify as v
from statediff.evidence.disclosure.undisclosed import whole
from statediff.evidence.package import Bundle, load, save
from statediff.evidence.raw import UNDISCLOSED, decrypted, withheld_piece
from statediff.evidence.seal import at_tier, opened, redact, seal
from statediff.kernel import replay
from statediff.model.trace import Action, Trace
from statediff.model.values import Map
from statediff.workspace.bundles import unseal
from statediff.workspace.folders import keep_bundle
from tests.growing_logs import ADA, NOON, TRUST
from tests.judging import DIVERGE, FACTS, item, run

pyrage: Any = pytest.importorskip("pyrage")
AUDITOR, STRANGER = pyrage.x25519.Identity.generate(), pyrage.x25519.Identity.generate()
BODY = """
evidence: {db: {disclose: public}}
steps:
  - {id: quiet, where: call.arguments.pin == 7364, count: 0}
"""


def made(pin: int = 7364, secret: bytes = b"", body: str = BODY) -> Bundle:
    call = Action("call-1", "pay", arguments=Map.of({"pin": pin}))
    return run(
        body,
        {"item": []},
        {"item": [item(1)]},
        trace=Trace((call,), is_complete=True, cause=""),
        facts=replace(FACTS, secret=secret),
    ).bundle


BUNDLE = made()


def test_a_bundle_that_shows_all_has_nothing_beside_it(tmp_path: Path) -> None:
    bundle = run("require: [{create: item}]", {"item": []}, {"item": [item(1)]}).bundle
    assert bundle.undisclosed is None
    assert "undisclosed" not in bundle.manifest
    save(bundle, tmp_path / "kept")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert whole(load(tmp_path / "kept")) is not None


def test_the_replay_decides_on_what_was_said(tmp_path: Path) -> None:
    assert b"7364" not in b"".join(each for name, each in BUNDLE.files.items() if name[0] != "c")
    assert BUNDLE.undisclosed is not None
    assert b"7364" in BUNDLE.undisclosed
    keep_bundle(BUNDLE, tmp_path / "kept")
    beside = tmp_path / "kept.undisclosed.json"
    assert beside.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", beside.name]
    assert replay(load(tmp_path / "kept")).verdict is DIVERGE
    beside.unlink()
    with pytest.raises(NotReplayable, match=r"withholds [0-9]+ values of what the run said"):
        replay(load(tmp_path / "kept"))
    keep_bundle(BUNDLE, tmp_path / "kept")  # the bundle is there, and what it does not show again
    assert replay(load(tmp_path / "kept")).verdict is DIVERGE


def test_two_trials_that_look_alike_do_not_lose_each_others_values(tmp_path: Path) -> None:
    quiet = BODY.replace("7364", "0")
    keep_bundle(made(1111, body=quiet), tmp_path / "kept")
    kept = (tmp_path / "kept.undisclosed.json").read_bytes()
    keep_bundle(made(1111, body=quiet), tmp_path / "kept")
    with pytest.raises(UsageError, match="judged by other values"):
        keep_bundle(made(2222, body=quiet), tmp_path / "kept")
    assert (tmp_path / "kept.undisclosed.json").read_bytes() == kept


def test_nothing_of_it_can_be_tried_against_a_bundle() -> None:
    """Two runs that differ in the pin alone have one bundle."""
    assert (
        made(1234, body=BODY.replace("7364", "1234")).files["trace.json"]
        == (BUNDLE.files["trace.json"])
    )
    quiet = BODY.replace("7364", "0")
    assert made(1111, body=quiet).manifest == made(2222, body=quiet).manifest
    assert made(1111, body=quiet).undisclosed != made(2222, body=quiet).undisclosed


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"form":"x","values":[]}', b"\xff", b"7"])
def test_what_is_no_such_document_is_refused(data: bytes) -> None:
    with pytest.raises(BundleError, match="belongs to another bundle"):
        replay(replace(BUNDLE, undisclosed=data))


def changed(bundle: Bundle, **more: Any) -> Bundle:
    document = json.loads(bundle.undisclosed or b"")
    for value in document["values"]:
        value[2] = more.get("value", value[2])
        value[1] = more.get("pointer", value[1])
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return replace(bundle, undisclosed=text.encode())


@pytest.mark.parametrize("pointer", ["/nowhere", "/actions/9", "/actions/x", "", "/", "/turns/0"])
def test_a_place_that_is_none_is_refused(pointer: str) -> None:
    with pytest.raises(BundleError):
        replay(changed(BUNDLE, pointer=pointer))


def test_another_value_never_gives_another_verdict() -> None:
    for value in ("7364", "1", 1, None, ["int", "1"]):
        with pytest.raises(BundleError):
            replay(changed(BUNDLE, value=value))


def test_under_a_secret_the_manifest_binds_it() -> None:
    quiet = BODY.replace("7364", "0")
    one = made(1111, b"s" * 32, quiet)
    assert one.manifest["undisclosed"].keys() == {"values", "digest"}
    assert one.manifest == made(1111, b"s" * 32, quiet).manifest
    digests = {made(pin, b"s" * 32, quiet).manifest["undisclosed"]["digest"] for pin in (1, 2, 3)}
    assert len(digests) == 3
    replay(one)
    other = made(2222, b"s" * 32, quiet)
    with pytest.raises(BundleError, match="not what the manifest binds"):
        replay(replace(one, undisclosed=other.undisclosed))
    # The secret itself is in neither.
    assert (b"s" * 32).hex().encode() not in (one.undisclosed or b"")


def sealed(recipients: list[str]) -> Any:
    assert BUNDLE.undisclosed is not None
    piece = withheld_piece(BUNDLE.undisclosed, recipients, lambda count: bytes(range(count)))
    return seal(BUNDLE, bytes(32), NOON, ADA.public, ADA.sign, [piece])


def test_a_sealed_copy_is_replayed_by_an_auditor_alone(tmp_path: Path) -> None:
    copy = sealed([str(AUDITOR.to_public())])
    found = v.verify(copy.files, TRUST)
    assert found.status == "VALID"
    with pytest.raises(NotReplayable, match="this copy withholds"):
        replay(opened(found))
    (tmp_path / "id").write_text(str(AUDITOR))
    assert replay(unseal(found, tmp_path / "id")).verdict is DIVERGE
    (leaf,) = (leaf for leaf in found.leaves if leaf.tag == UNDISCLOSED)
    assert decrypted(leaf, str(AUDITOR)) == ("undisclosed.json", BUNDLE.undisclosed)
    for tier in ("reviewer", "public"):
        lower = redact(copy, found, at_tier(tier))
        seen = v.verify(lower.files, TRUST)
        assert seen.status == "NOT_REPLAYABLE_AT_TIER"
        assert seen.withheld[UNDISCLOSED] == 1
        assert leaf.value["ciphertext"].encode() not in b"".join(lower.files.values())


def test_a_copy_that_is_encrypted_to_nobody_says_so_in_its_status() -> None:
    whole_copy = sealed([])
    found = v.verify(whole_copy.files, TRUST)
    copy = redact(whole_copy, found, lambda leaf: leaf.tag != UNDISCLOSED)
    seen = v.verify(copy.files, TRUST)
    assert (seen.status, dict(seen.withheld)) == ("NOT_REPLAYABLE_AT_TIER", {UNDISCLOSED: 1})
    assert opened(seen).manifest == BUNDLE.manifest
    with pytest.raises(NotReplayable):
        replay(opened(seen))
