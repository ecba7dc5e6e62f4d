"""A log only grows: whatever else happens to it is noticed by whoever kept a checkpoint."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.errors import BundleError, UsageError
from statediff.evidence.canonical import write
from statediff.evidence.checkpoints import (
    check_extends,
    check_proof,
    checkpoint,
    proof_of,
    read_checkpoint,
)
from statediff.evidence.keys import SigningKey
from statediff.evidence.log import (
    RECORDS,
    REGISTRATION,
    Record,
    read_log,
    record_entry,
    registration,
    verdict_entry,
)
from statediff.evidence.verify import Signer
from tests.growing_logs import ADA, EVE, NOON, TRUST
from tests.judging import item, run, user

FIRST = "require: [{create: item, count: {min: 1}}]"
SECOND = "require: [{create: item, set: {n: 9}}]"


def bundle(n: int, body: str = FIRST) -> Any:
    before = {"user": [user(1)], "item": []}
    return run(body, before, {**before, "item": [item(1, n)]}).bundle


def log_of(*judged: tuple[Any, str | None]) -> bytes:
    data = b""
    for each, because in judged:
        data += verdict_entry(read_log(data), each, NOON, because) + b"\n"
    return data


LOG = log_of(*((bundle(n), None) for n in range(7)))


def signed(data: bytes, key: SigningKey = ADA, at: datetime = NOON) -> bytes:
    return checkpoint(read_log(data), "ours", at, key)


def test_a_judgement_anew_names_what_it_supersedes_and_why_and_the_old_one_stays() -> None:
    data = log_of((bundle(1), None))
    with pytest.raises(UsageError, match="--because"):
        verdict_entry(read_log(data), bundle(1, SECOND), NOON, None)
    with pytest.raises(UsageError, match="--because"):
        verdict_entry(read_log(data), bundle(1, SECOND), NOON, " ")
    data = log_of((bundle(1), None), (bundle(2), None), (bundle(1, SECOND), "nine is right"))
    entries = read_log(data).entries
    assert [e["supersedes"] for e in entries] == [None, None, 0]
    assert [e["verdict"] for e in entries] == ["MATCH", "MATCH", "DIVERGE"]
    assert entries[2]["because"] == "nine is right"


def test_the_same_bundle_is_in_a_log_once_and_a_reason_needs_something_to_supersede() -> None:
    with pytest.raises(UsageError, match="entry 3"):
        verdict_entry(read_log(LOG), bundle(3), NOON, None)
    with pytest.raises(UsageError, match="the log has no such verdict"):
        verdict_entry(read_log(LOG), bundle(50), NOON, "why not")


@given(st.integers(0, 7), st.integers(0, 7))
def test_a_log_extends_every_checkpoint_of_its_past_and_no_other(size: int, kept: int) -> None:
    lines = LOG.splitlines(keepends=True)
    seen = read_checkpoint(signed(b"".join(lines[:size])), TRUST)
    later = read_log(b"".join(lines[:kept]))
    if kept < size:
        with pytest.raises(BundleError, match="taken out"):
            check_extends(later, seen)
    else:
        assert check_extends(later, seen) == kept - size


@given(st.data())
def test_a_log_that_was_rewritten_is_noticed(data: st.DataObject) -> None:
    lines = LOG.splitlines(keepends=True)
    seen = read_checkpoint(signed(LOG), TRUST)
    at = data.draw(st.integers(0, 6))
    entry = json.loads(lines[at])
    field = data.draw(st.sampled_from(["verdict", "trial", "at", "kernel", "bundle"]))
    changed = write({**entry, field: "DIVERGE" if field == "verdict" else "other"}) + b"\n"
    forged = b"".join([*lines[:at], changed, *lines[at + 1 :]])
    with pytest.raises(BundleError, match="rewritten"):
        check_extends(read_log(forged), seen)
    swapped = b"".join([*lines[1:], lines[0]])
    with pytest.raises(BundleError, match="rewritten"):
        check_extends(read_log(swapped), seen)


@pytest.mark.parametrize(
    "line",
    [
        b"{}", b"[]", b"nonsense", b"", LOG.splitlines()[0] + b" ",
        LOG.splitlines()[0].replace(b"verdict", b"verdicts"),
        LOG.splitlines()[0].replace(b'"supersedes":null', b'"supersedes":0'),
        LOG.splitlines()[0].replace(b"entry/1", b"entry/2"),
    ],
)  # fmt: skip
def test_what_is_no_entry_is_named(line: bytes) -> None:
    with pytest.raises(BundleError, match="entry 7"):
        read_log(LOG + line + b"\n")


def test_a_torn_line_is_no_entry() -> None:
    with pytest.raises(BundleError, match="torn"):
        read_log(LOG[:-5])


@pytest.mark.parametrize("index", range(7))
def test_a_proof_shows_its_entry_and_no_other(index: int) -> None:
    log, point = read_log(LOG), signed(LOG)
    proof = proof_of(log, index, point, 7)
    entry, seen = check_proof(proof, TRUST, origin="ours")
    assert (entry, seen) == (log.entries[index], read_checkpoint(point, TRUST))
    front, _, own = proof.decode().partition("\n\n")
    first, extra, number, *steps = front.split("\n")
    other = proof_of(log, (index + 1) % 7, point, 7).decode().split("\n")[1]
    for lines in (
        [first, other, number, *steps],
        [first, extra, f"index {(index + 1) % 7}", *steps],
        [first, extra, "index 9", *steps],
        [first, extra, f"index 0{index}", *steps],
        [first, extra, number, *steps[1:]],
        [first, extra, number, *steps, steps[0]],
        [first, extra, number, *steps, "x"],
        [first, number, extra, *steps],
        [first, number, *steps],
        ["c2sp.org/tlog-proof@v2", extra, number, *steps],
        [first, f"{extra}=", number, *steps],
    ):
        with pytest.raises((BundleError, UsageError)):
            check_proof("\n".join([*lines, "", own]).encode(), TRUST)
    shorter = signed(b"".join(LOG.splitlines(keepends=True)[:6]))
    with pytest.raises(BundleError):
        check_proof(front.encode() + b"\n\n" + shorter, TRUST)
    with pytest.raises(BundleError, match="another checkpoint"):
        check_proof(proof, TRUST, signed=shorter)
    with pytest.raises(BundleError, match="not of 'theirs'"):
        check_proof(proof, TRUST, origin="theirs")


def test_there_is_no_proof_of_an_entry_that_the_checkpoint_did_not_see() -> None:
    with pytest.raises(UsageError, match="no entry 6"):
        proof_of(read_log(LOG), 6, signed(LOG), 6)


@given(st.integers(0), st.integers(1, 255))
def test_no_changed_byte_of_a_checkpoint_is_accepted(place: int, bits: int) -> None:
    data = bytearray(signed(LOG))
    data[place % len(data)] ^= bits
    with pytest.raises(BundleError):
        read_checkpoint(bytes(data), TRUST)


def test_a_checkpoint_counts_only_by_a_key_trusted_at_its_time() -> None:
    for trust in (
        (),
        (Signer("Ada", ADA.public, ("reviewer",), None, None),),
        (Signer("Ada", ADA.public, ("evaluator",), NOON + timedelta(1), None),),
        (Signer("Ada", ADA.public, ("evaluator",), None, NOON),),
    ):
        with pytest.raises(BundleError):
            read_checkpoint(signed(LOG), trust)
    with pytest.raises(BundleError, match="that is trusted"):
        read_checkpoint(signed(LOG, EVE), TRUST)


def record(kind: str, number: int = 0, **said: str) -> Record:
    given = {"run": "run-1", "trials": "3"} if kind == REGISTRATION else {"by": "Ada"}
    return Record(kind, "f" * 64, f"{number:064x}", said or given)


def with_records() -> bytes:
    data = LOG
    for number, kind in enumerate(RECORDS):
        data += record_entry(read_log(data), record(kind, number), NOON) + b"\n"
    return data


def test_what_people_did_stands_beside_verdicts_under_the_same_root() -> None:
    log = read_log(with_records())
    assert [e["kind"] for e in log.entries] == ["verdict"] * 7 + list(RECORDS)
    assert log.latest == read_log(LOG).latest
    seen = read_checkpoint(signed(LOG), TRUST)
    assert check_extends(log, seen) == len(RECORDS)
    point = signed(with_records())
    for index, entry in enumerate(log.entries):
        proof = proof_of(log, index, point, len(log.entries))
        assert check_proof(proof, TRUST)[0] == entry


def test_a_re_judgement_after_records_still_names_the_verdict_it_supersedes() -> None:
    data = with_records()
    line = verdict_entry(read_log(data), bundle(1, SECOND), NOON, "nine is right")
    assert read_log(data + line + b"\n").entries[-1]["supersedes"] == 1


@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_stands_once(kind: str) -> None:
    data = with_records()
    with pytest.raises(UsageError, match=f"has this {kind} already"):
        record_entry(read_log(data), record(kind, RECORDS.index(kind)), NOON)
    line = next(x for x in data.splitlines() if f'"kind":"{kind}"'.encode() in x)
    with pytest.raises(BundleError, match="earlier entry"):
        read_log(data + line + b"\n")


LINE = record_entry(read_log(LOG), record("release"), NOON)


@pytest.mark.parametrize(
    "line",
    [
        LINE.replace(b'"release"', b'"rumour"'), LINE.replace(b'{"by":"Ada"}', b'{"by":1}'),
        LINE.replace(b'{"by":"Ada"}', b"[]"), LINE.replace(b"0" * 64, b"0" * 63),
        LINE.replace(b"0" * 64, b"G" * 64), LINE.replace(b"entry/1", b"entry/2"),
        LINE.replace(b'"said"', b'"says"'), LINE.replace(b'"Ada"', b'"' + b"x" * 4001 + b'"'),
    ],
)  # fmt: skip
def test_what_is_no_record_is_named(line: bytes) -> None:
    with pytest.raises(BundleError, match="entry 7"):
        read_log(LOG + line + b"\n")


FACTS = b'{"run": "facts"}'


def registered(names: tuple[str, ...]) -> bytes:
    return record_entry(read_log(b""), registration("run-1", FACTS, names, ["a@1.0.0"]), NOON)


def test_a_trial_of_a_registered_run_that_has_no_verdict_is_missing() -> None:
    one = bundle(1)
    name = str(one.manifest["trial"])
    data = registered((name, "left-out")) + b"\n"
    (run,) = read_log(data).registered.values()
    assert (run.missing, run.judged) == (2, set())
    digest = next(iter(read_log(data).registered))
    data += verdict_entry(read_log(data), one, NOON, None, run=digest) + b"\n"
    (run,) = read_log(data).registered.values()
    assert (run.missing, run.judged) == (1, {name})
    again = verdict_entry(read_log(data), bundle(1, SECOND), NOON, "nine is right", run=digest)
    (run,) = read_log(data + again + b"\n").registered.values()
    assert run.missing == 1


def test_a_verdict_belongs_to_a_run_only_if_it_was_registered_before() -> None:
    one = bundle(1)
    data = registered((str(one.manifest["trial"]),)) + b"\n"
    digest = next(iter(read_log(data).registered))
    line = verdict_entry(read_log(data), one, NOON, None, run=digest) + b"\n"
    with pytest.raises(BundleError, match="no earlier entry registered"):
        read_log(line + data)
    other = registered(("another",)) + b"\n"
    assert "run" not in json.loads(verdict_entry(read_log(other), one, NOON, None, run=digest))
    assert "run" not in json.loads(verdict_entry(read_log(b""), one, NOON, None, run=digest))
    with pytest.raises(BundleError, match="expected exactly"):
        read_log(data + line.replace(b"entry/2", b"entry/1"))


@pytest.mark.parametrize(
    "said",
    [{"run": "r"}, {"run": "r", "trials": "-1"}, {"run": "r", "trials": "2", "names": "a"},
     {"run": "r", "trials": "2", "names": "a a"}, {"run": "r", "trials": "99999999"},
     {"run": "r", "trials": "²"}],
)  # fmt: skip
def test_a_registration_says_how_many_and_names_all_or_none(said: dict[str, str]) -> None:
    line = record_entry(read_log(b""), Record(REGISTRATION, "r", "0" * 64, said), NOON)
    with pytest.raises(BundleError, match="how many trials"):
        read_log(line + b"\n")


def test_more_trials_than_an_entry_can_name_are_counted() -> None:
    names = tuple(f"trial-{n}" for n in range(5000))
    (run,) = read_log(registered(names) + b"\n").registered.values()
    assert (run.trials, run.names, run.missing) == (5000, (), 5000)
    assert run.plans("trial-17")
