"""Checkpoints as others write and read them, and what two of them say of one log."""

from __future__ import annotations

import base64
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.errors import BundleError, UsageError
from statediff.evidence.checkpoints import (
    WITNESSING,
    Checkpoint,
    check_consistent,
    checkpoint,
    consistency_of,
    read_checkpoint,
    with_signatures,
)
from statediff.evidence.log import read_log
from statediff.evidence.notes import MAX_BYTES, Note, cosign, read_note, require_name
from statediff.evidence.verify import Signer
from tests.growing_logs import ADA, EVE, NAME, NOON, TRUST, WES, log_of

LONG = log_of(9)


def signed(size: int, data: bytes = LONG, origin: str = NAME) -> bytes:
    lines = data.splitlines(keepends=True)[:size]
    return checkpoint(read_log(b"".join(lines)), origin, NOON, ADA)


def seen(size: int, data: bytes = LONG, origin: str = NAME) -> Checkpoint:
    return read_checkpoint(signed(size, data, origin), TRUST)


def test_a_note_that_the_format_gives_as_its_example_is_read_and_verified() -> None:
    """[pkg.go.dev/golang.org/x/mod/sumdb/note, package documentation]."""
    public = base64.b64decode("ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW")[1:]
    note = read_note(
        "If you think cryptography is the answer to your problem,\n"
        "then you don't know what your problem is.\n\n"
        "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdng"
        "otpRZb6KE6RyyBwJnAM=\n".encode()
    )
    assert note.is_signed("PeterNeumann", public)
    assert not note.is_signed("PeterNeumann", ADA.public)
    assert not note.is_signed("Peter", public)
    with pytest.raises(BundleError, match="does not fit"):
        Note(note.text.replace("you", "they"), note.signatures).is_signed("PeterNeumann", public)


def test_a_checkpoint_is_three_lines_and_two_signatures_of_the_log() -> None:
    text, _, lines = signed(3).decode().partition("\n\n")
    origin, size, root = text.split("\n")
    assert (origin, size) == (NAME, "3")
    assert base64.b64decode(root) == read_log(log_of(3)).root
    assert [line.split(" ")[:2] for line in lines.splitlines()] == [["\u2014", NAME]] * 2


def test_the_time_of_a_checkpoint_is_signed() -> None:
    assert seen(3).at == NOON
    note = read_note(signed(3))
    plain, timed = note.signatures
    later = timed.data[:7] + b"\xff" + timed.data[8:]
    forged = Note(note.text, (plain, type(timed)(timed.name, timed.key, later)))
    with pytest.raises(BundleError, match="does not fit"):
        read_checkpoint(forged.written(), TRUST)
    with pytest.raises(BundleError, match="does not say when"):
        read_checkpoint(Note(note.text, (plain,)).written(), TRUST)
    never = type(timed)(timed.name, timed.key, b"\xff" * 8 + timed.data[8:])
    with pytest.raises(BundleError, match="at no time"):
        read_checkpoint(Note(note.text, (plain, never)).written(), TRUST)


def test_a_witness_counts_only_by_its_role_its_key_and_its_text() -> None:
    note = read_note(signed(3))
    good = cosign(note.text, "example.com/wes", NOON, WES)
    assert [w.name for w in read_checkpoint(_with(note, good), TRUST).witnesses] == ["Wes"]
    stranger = cosign(note.text, "example.com/eve", NOON, EVE)
    assert read_checkpoint(_with(note, stranger), TRUST).witnesses == ()
    of_role = (TRUST[0], Signer("Wes", WES.public, ("evaluator",), None, None))
    assert read_checkpoint(_with(note, good), of_role).witnesses == ()
    other = cosign(read_note(signed(4)).text, "example.com/wes", NOON, WES)
    with pytest.raises(BundleError, match="does not fit"):
        read_checkpoint(_with(note, other), TRUST)
    late = (TRUST[0], Signer("Wes", WES.public, (WITNESSING,), NOON + timedelta(1), None))
    with pytest.raises(BundleError, match="not valid"):
        read_checkpoint(_with(note, good), late)
    itself = cosign(note.text, "example.com/ada", NOON, ADA)
    assert read_checkpoint(_with(note, itself), TRUST).witnesses == ()


def _with(note: Note, *more: object) -> bytes:
    return with_signatures(note, more).written()  # type: ignore[arg-type]  # as a test says them


@pytest.mark.parametrize(
    "name", ["", "two words", "a+b", "a\nb", "a\u00a0b", "a\tb", "x" * 201, "a\x00"]
)
def test_what_cannot_name_a_log_is_refused_before_anything_is_signed(name: str) -> None:
    with pytest.raises(UsageError, match="expected a name"):
        require_name(name)
    with pytest.raises(UsageError):
        signed(1, origin=name)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\n", b"\n\n", b"text\n\n", b"\xff\n\n", signed(2).replace(b"\n", b"\r\n"),
        signed(2)[:-1], signed(2).replace("\u2014".encode(), b"-"), signed(2) + b"\n",
        signed(2).replace(b"\n2\n", b"\n02\n"), signed(2).replace(b"\n2\n", b"\n-2\n"),
        signed(2).replace(b"\n2\n", b"\n\n"), signed(2).replace(b"\n2\n", "\n\u00b2\n".encode()),
        b"x" * (MAX_BYTES + 1), signed(2).replace(b"=\n\n", b"\n\n"),
    ],
)  # fmt: skip
def test_what_is_no_checkpoint_is_refused_in_a_sentence(data: bytes) -> None:
    with pytest.raises(BundleError, match=r"^checkpoint: "):
        read_checkpoint(data, TRUST)


@given(st.integers(0, 9), st.integers(0, 9))
def test_two_checkpoints_of_one_log_are_consistent_by_a_proof_and_never_backwards(
    old: int, new: int
) -> None:
    log = read_log(LONG)
    if new < old:
        with pytest.raises(BundleError, match="went back"):
            check_consistent(seen(old), seen(new), None)
        return
    proof = consistency_of(log, seen(old), seen(new))
    assert check_consistent(seen(old), seen(new), proof) == new - old
    forked = log_of(9, " B")
    if old:
        with pytest.raises(BundleError, match="rewritten, or has two histories"):
            check_consistent(seen(old, forked), seen(new), None if old == new else proof)
        if old < new:
            with pytest.raises(UsageError, match="--proof"):
                check_consistent(seen(old), seen(new), None)


def test_a_witness_that_helps_a_log_to_two_histories_is_found_by_who_sees_both() -> None:
    both = []
    for data in (LONG, log_of(9, " B")):
        note = read_note(signed(9, data))
        line = cosign(note.text, "example.com/wes", NOON, WES)
        both.append(read_checkpoint(with_signatures(note, [line]).written(), TRUST))
    assert [len(each.witnesses) for each in both] == [1, 1]  # to each reader alone it is good
    with pytest.raises(BundleError, match="rewritten, or has two histories"):
        check_consistent(both[0], both[1], None)


def test_checkpoints_of_two_logs_are_not_compared() -> None:
    with pytest.raises(BundleError, match="two logs"):
        check_consistent(seen(2), seen(3, origin="example.com/other"), None)


@pytest.mark.parametrize(
    "change",
    [(b'"old":3', b'"old":4'), (b"consistency/1", b"consistency/2"), (b'"path":[', b'"path":[0,'),
     (b'"path":[', b'"path":["x",'), (b'"new"', b'"now"')],
)  # fmt: skip
def test_a_changed_proof_between_two_checkpoints_shows_nothing(change: tuple[bytes, bytes]) -> None:
    proof = consistency_of(read_log(LONG), seen(3), seen(7))
    assert check_consistent(seen(3), seen(7), proof) == 4
    with pytest.raises(BundleError):
        check_consistent(seen(3), seen(7), proof.replace(*change))
