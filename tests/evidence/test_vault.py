"""A kept value can be forgotten: without its key it is withheld; no verdict becomes another."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.errors import BundleError, NotReplayable, StorageError, UsageError
from statediff.evidence import verify as v
from statediff.evidence.canonical import write
from statediff.evidence.seal import opened, seal
from statediff.evidence.vault import (
    Kept,
    Vault,
    check_kept,
    due,
    expiry,
    keep,
    kept_bytes,
    read_expiry,
    read_kept,
    restored,
)
from statediff.kernel import replay
from tests.growing_logs import ADA, NOON, TRUST
from tests.judging import item, run, user

BODY = """\
require: [{id: made, create: item, set: {n: 3}}]
evidence: {db: {retain: 90d}}
"""


def fresh() -> Callable[[int], bytes]:
    numbers: Iterator[int] = iter(range(1, 200))
    return lambda count: bytes([next(numbers)] * count)


def bundle(body: str = BODY) -> Any:
    before = {"user": [user(1)], "item": [item(1, 1, owner=1)]}
    after = {**before, "item": [*before["item"], item(2, 3, owner=1, t="whispered")]}
    return run(body, before, after).bundle


@pytest.fixture
def kept(tmp_path: Path) -> tuple[Kept, Vault]:
    vault = Vault(tmp_path / "vault")
    sealed = seal(bundle(), bytes(32), NOON, ADA.public, ADA.sign)
    made = keep(sealed, v.verify(sealed.files, TRUST), vault, fresh())
    return read_kept(kept_bytes(made)), vault


def test_with_its_keys_a_kept_bundle_is_what_was_sealed(kept: tuple[Kept, Vault]) -> None:
    found = v.verify(restored(*kept).files, TRUST)
    assert (found.status, found.withheld) == ("VALID", {})
    assert opened(found) == bundle()
    assert replay(opened(found)).verdict.value == "MATCH"


def test_the_file_holds_no_value_in_the_clear_and_no_key(kept: tuple[Kept, Vault]) -> None:
    made, vault = kept
    data = kept_bytes(made) + b"".join(made.copy.files.values())
    assert b"whispered" not in data
    assert v.verify(made.copy.files, TRUST).status == "NOT_REPLAYABLE_AT_TIER"
    files = sorted(vault.folder.iterdir())
    assert len(files) == len(made.items) == 2
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    for path in files:
        assert path.read_bytes() not in data


def test_what_is_due_follows_from_the_contract(kept: tuple[Kept, Vault]) -> None:
    moments = {days: len(due(*kept, NOON + timedelta(days))) for days in (0, 89, 90, 10_000)}
    assert moments == {0: 0, 89: 0, 90: 1, 10_000: 1}
    assert len(due(*kept, None)) == 2  # the contract, the schema and the times go when asked


@pytest.mark.parametrize("which", [(0,), (1,), (0, 1)])
def test_what_expired_is_withheld_for_good_and_never_replays_to_a_verdict(
    kept: tuple[Kept, Vault], which: tuple[int, ...]
) -> None:
    made, vault = kept
    keys = [vault.get(item.name) for item in made.items]
    for number in which:
        vault.destroy(made.items[number].name)
    found = v.verify(restored(made, vault).files, TRUST)
    assert found.status == "NOT_REPLAYABLE_AT_TIER"
    with pytest.raises(NotReplayable):
        opened(found)
    assert len(due(made, vault, None)) == 2 - len(which)
    left = b"".join(path.read_bytes() for path in vault.folder.iterdir())
    assert all((keys[n] in left) == (n not in which) for n in (0, 1))


def test_the_record_names_what_was_erased_and_only_a_trusted_key_says_so(
    kept: tuple[Kept, Vault],
) -> None:
    made, vault = kept
    record = expiry(made, due(made, vault, None), NOON, "asked for by the customer", ADA)
    payload, signer = read_expiry(record, TRUST)
    assert (signer, payload["root"]) == ("Ada", made.root)
    assert payload["items"] == sorted(item.name for item in made.items)
    with pytest.raises(BundleError, match="not trusted"):
        read_expiry(record, ())
    with pytest.raises(UsageError, match="nothing is due"):
        expiry(made, (), NOON, "why", ADA)
    with pytest.raises(UsageError, match="because"):
        expiry(made, made.items, NOON, " ", ADA)


@pytest.mark.parametrize("change", ["until", "of another", "twice", "never"])
def test_a_file_that_changes_a_date_or_lists_what_is_not_its_own_is_refused(
    kept: tuple[Kept, Vault], change: str
) -> None:
    made, vault = kept
    document = json.loads(kept_bytes(made))
    other = seal(bundle(BODY.replace("n: 3", "n: 2")), bytes(32), NOON, ADA.public, ADA.sign)
    decoy = json.loads(kept_bytes(keep(other, v.verify(other.files, TRUST), vault, fresh())))
    match change:
        case "until":
            document["items"][0]["until"] = NOON.isoformat()
        case "never":
            document["items"][0]["until"] = None
        case "twice":
            document["items"].append(document["items"][0])
        case _:
            document["items"] += decoy["items"]
    with pytest.raises(BundleError, match="not of this bundle, or its date was changed"):
        read_kept(write(document))


def test_what_is_not_genuine_is_not_erased(kept: tuple[Kept, Vault]) -> None:
    made, vault = kept
    check_kept(made, vault, TRUST)
    with pytest.raises(BundleError, match="INVALID"):
        check_kept(made, vault, ())
    swapped = (made.items[0], replace(made.items[1], data=made.items[0].data))
    with pytest.raises(BundleError, match="does not fit its key"):
        check_kept(Kept(made.copy, swapped), vault, TRUST)


def test_a_missing_vault_is_not_an_erased_one(kept: tuple[Kept, Vault]) -> None:
    shutil.rmtree(kept[1].folder)
    with pytest.raises(StorageError, match="no vault"):
        restored(*kept)


def test_a_wrong_key_or_another_items_data_is_refused(kept: tuple[Kept, Vault]) -> None:
    made, vault = kept
    first, second = made.items
    swapped = Kept(made.copy, (type(first)(first.name, None, second.data), second))
    with pytest.raises(BundleError, match="does not fit"):
        restored(swapped, vault)
    vault.destroy(first.name)
    vault.put(first.name, bytes(32))
    with pytest.raises(BundleError, match="does not fit"):
        restored(made, vault)


SEALED = seal(bundle(), bytes(32), NOON, ADA.public, ADA.sign)


@given(st.integers(0), st.integers(1, 255))
def test_no_changed_byte_of_a_kept_bundle_gives_another_copy(place: int, bits: int) -> None:
    import tempfile  # noqa: PLC0415 - a fixture would be shared by the examples

    with tempfile.TemporaryDirectory() as folder:
        vault = Vault(Path(folder, "vault"))
        made = keep(SEALED, v.verify(SEALED.files, TRUST), vault, fresh())
        data = bytearray(kept_bytes(made))
        data[place % len(data)] ^= bits
        try:
            found = v.verify(restored(read_kept(bytes(data)), vault).files, TRUST)
        except (BundleError, v.Rejected):
            return
        # Only `until`, which is a wish and not evidence, or a name whose key is then missing.
        assert found.manifest == v.verify(SEALED.files, TRUST).manifest
        assert set(found.disclosed) <= set(v.verify(SEALED.files, TRUST).disclosed)


@pytest.mark.parametrize(
    "document",
    [
        [], {}, {"copy": {}, "format": "x", "items": []}, {"copy": [], "format": "statediff/kept/1",
        "items": [{"name": "../../etc/passwd", "until": None, "data": ""}]},
        {"copy": {}, "format": "statediff/kept/1", "items": [{"name": "../" * 10 + "ab",
        "until": None, "data": ""}]}, {"copy": {}, "format": "statediff/kept/1", "items": [7]},
    ],
)  # fmt: skip
def test_what_is_no_kept_bundle_is_refused(document: Any) -> None:
    with pytest.raises(BundleError):
        read_kept(json.dumps(document, sort_keys=True, separators=(",", ":")).encode())
