"""Proofs of an append-only log: every true one is accepted, and nothing else."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.evidence.merkle import (
    EMPTY,
    consistency_proof,
    entry_hash,
    extends,
    inclusion_proof,
    log_root,
)
from statediff.evidence.verify import includes

HASHES = [entry_hash(bytes([n])) for n in range(70)]


def by_definition(hashes: list[bytes]) -> bytes:
    """RFC 6962 §2.1, as it is written."""
    if not hashes:
        return hashlib.sha256(b"").digest()
    if len(hashes) == 1:
        return hashes[0]
    k = 1
    while k * 2 < len(hashes):
        k *= 2
    left, right = by_definition(hashes[:k]), by_definition(hashes[k:])
    return hashlib.sha256(b"\x01" + left + right).digest()


@pytest.mark.parametrize("size", range(70))
def test_the_root_is_that_of_the_definition(size: int) -> None:
    assert log_root(HASHES[:size]) == by_definition(HASHES[:size])


def test_the_root_of_known_entries_is_the_known_one() -> None:
    # The eight entries and the root that implementations of RFC 6962 test themselves with.
    entries = [
        "", "00", "10", "2021", "3031", "40414243", "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    ]  # fmt: skip
    hashes = [entry_hash(bytes.fromhex(entry)) for entry in entries]
    expected = "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"
    assert log_root(hashes).hex() == expected


@pytest.mark.parametrize("size", range(1, 40))
def test_every_entry_is_shown_to_be_in_the_log_and_at_no_other_place(size: int) -> None:
    root = log_root(HASHES[:size])
    for index in range(size):
        proof = inclusion_proof(HASHES[:size], index)
        assert includes(HASHES[index], index, size, root, proof)
        assert not includes(HASHES[size], index, size, root, proof)
        assert not any(
            includes(HASHES[index], other, size, root, proof)
            for other in range(size + 2)
            if other != index
        )
        assert not includes(HASHES[index], index, size, root, (*proof, EMPTY))
        assert not proof or not includes(HASHES[index], index, size, root, proof[:-1])


@pytest.mark.parametrize("longer", range(1, 40))
def test_every_beginning_is_shown_to_be_one(longer: int) -> None:
    whole = log_root(HASHES[:longer])
    for size in range(longer + 1):
        root, proof = log_root(HASHES[:size]), consistency_proof(HASHES[:longer], size)
        assert extends(size, root, longer, whole, proof)
        assert not extends(size, entry_hash(b"x"), longer, whole, proof)
        assert size == 0 or not extends(size, root, longer, entry_hash(b"x"), proof)
        assert not extends(size, root, longer, whole, (*proof, EMPTY))
        assert not proof or not extends(size, root, longer, whole, proof[:-1])
        assert extends(size, root, longer, whole, ()) == (size in (0, longer))


@given(st.integers(1, 69), st.data())
def test_a_changed_entry_is_never_a_beginning(longer: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, longer))
    at = data.draw(st.integers(0, size - 1))
    forged = list(HASHES[:longer])
    forged[at] = entry_hash(b"forged")
    root = log_root(HASHES[:size])
    proof = consistency_proof(forged, size)
    assert not extends(size, root, longer, log_root(forged), proof)


@given(st.integers(1, 60), st.integers(0, 60), st.lists(st.sampled_from(HASHES), max_size=8))
def test_made_up_proofs_are_refused(size: int, index: int, proof: list[bytes]) -> None:
    root = log_root(HASHES[:size])
    true = index < size and proof == list(inclusion_proof(HASHES[:size], index))
    assert includes(HASHES[min(index, 69)], index, size, root, proof) == true


@pytest.mark.parametrize(("size", "index"), [(0, 0), (3, 3), (3, -1)])
def test_there_is_no_proof_of_what_is_not_there(size: int, index: int) -> None:
    with pytest.raises(ValueError, match="no entry"):
        inclusion_proof(HASHES[:size], index)
    with pytest.raises(ValueError, match="no beginning"):
        consistency_proof(HASHES[:size], size + 1)


@pytest.mark.parametrize(("size", "longer"), [(3, 2), (1, 0), (70, 8), (-1, 2), (-1, -1)])
def test_no_log_begins_with_a_longer_one_or_with_less_than_none(size: int, longer: int) -> None:
    root, whole = (log_root(HASHES[: max(0, each)]) for each in (size, longer))
    for proof in ((), (root,), (whole,), (root, whole)):
        assert extends(size, root, longer, whole, proof) is False


def above(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


@pytest.mark.parametrize("size", range(1, 20))
def test_a_proof_that_climbs_past_the_root_is_refused(size: int) -> None:
    # Whoever makes a checkpoint chooses its root: here, one of a larger tree under a smaller size.
    x = entry_hash(b"x")
    for index in range(size):
        root = above(x, log_root(HASHES[:size]))
        proof = (*inclusion_proof(HASHES[:size], index), x)
        assert not includes(HASHES[index], index, size, root, proof)
    for beginning in range(1, size):
        one, two = (above(x, log_root(HASHES[:n])) for n in (beginning, size))
        proof = (*consistency_proof(HASHES[:size], beginning), x)
        assert not extends(beginning, one, size, two, proof)
