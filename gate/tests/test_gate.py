"""Decisions of a gate: what it allows, holds and denies, and what a person may open."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path

import pytest
from statediff_gate import Approval, Decision, Gate, Outcome
from statediff_gate.holds import Hold, approve, read_approval, read_hold, utc_now
from statediff_gate.records import Records, read_decisions

from gate.tests.conftest import CONTRACT, rows, write
from statediff.cli.main import run
from statediff.errors import BundleError, ContractError, UsageError
from statediff.evidence.keys import load_key, load_trust
from statediff.evidence.package import load
from statediff.scoring import contract_of

ANOTHER = "INSERT INTO orders (status, cents) VALUES ('new', 5)"
REFUND = "UPDATE orders SET status = 'refunded' WHERE id = 7"


@pytest.mark.parametrize(("statement", "decision"), [
    (REFUND, "allow"),
    ("UPDATE orders SET note = 'early' WHERE id = 7", "allow"),
    ("SELECT * FROM customer", "allow"),
    (ANOTHER, "hold"),
    ("DELETE FROM customer WHERE id = 1", "deny"),
    ("UPDATE orders SET status = 'refunded'", "deny"),
    ("CREATE TRIGGER t AFTER UPDATE ON orders BEGIN DELETE FROM customer; END", "deny"),
    ("ALTER TABLE customer ADD COLUMN w", "deny"),
    ("PRAGMA user_version = 5", "deny"),
    ("PRAGMA writable_schema = ON", "deny"),
    ("ATTACH ':memory:' AS other", "deny"),
    ("COMMIT", "deny"),
    ("SELECT 1; COMMIT", "deny"),
    ("no SQL at all", "deny"),
])  # fmt: skip
def test_a_transaction_is_committed_where_the_contract_allows_it_and_nowhere_else(
    opened, shop: Path, statement: str, decision: str
) -> None:
    before = shop.read_bytes()
    with opened() as gate:
        outcome = gate.execute([statement])
    assert (outcome.decision.value, outcome.is_committed) == (decision, decision == "allow")
    assert decision == "allow" or shop.read_bytes() == before
    assert bool(outcome.why) == (decision != "allow")


def test_what_a_run_did_counts_over_its_transactions(opened) -> None:
    with opened() as gate:
        logged = [gate.execute(["INSERT INTO log VALUES ('a')"]) for _ in range(2)]
        back = gate.execute(["UPDATE orders SET status = 'paid' WHERE id = 7"])
    assert [each.decision for each in (*logged, back)] == [
        Decision.ALLOW, Decision.DENY, Decision.ALLOW
    ]  # fmt: skip


def test_a_thread_has_one_transaction_open(opened) -> None:
    with opened() as gate, gate.transaction(), pytest.raises(UsageError, match="end it first"):
        gate.begin_run()


def test_another_run_begins_with_what_was_committed(opened) -> None:
    with opened() as gate:
        first = gate.execute(["INSERT INTO log VALUES ('a')"])
        gate.begin_run()
        again = [gate.execute(["INSERT INTO log VALUES ('a')"]) for _ in range(2)]
    assert first.is_committed
    assert [each.is_committed for each in again] == [True, False]


def test_what_others_write_is_no_part_of_the_run_and_a_row_of_both_is_a_hold(
    opened, shop: Path
) -> None:
    with opened() as gate:
        write(
            shop, "UPDATE customer SET name = 'Eve' WHERE id = 2", "DELETE FROM orders WHERE id = 8"
        )
        assert gate.execute(["UPDATE orders SET note = 'x' WHERE id = 7"]).is_committed
        write(shop, "UPDATE orders SET note = 'theirs' WHERE id = 7")
        outcome = gate.execute(["UPDATE orders SET note = 'y' WHERE id = 7"])
    assert (outcome.decision, "in turns" in outcome.why) == (Decision.HOLD, True)
    assert rows(shop, "SELECT note FROM orders") == [("theirs",)]


def test_it_is_asynchronous_too_and_an_outcome_is_no_truth(opened) -> None:
    with opened() as gate:
        outcome = asyncio.run(gate.execute_async([REFUND]))
    assert outcome.is_committed
    with pytest.raises(TypeError):
        bool(outcome)


def test_a_contract_that_does_not_fit_opens_no_gate(shop: Path, keys: Path) -> None:
    wrong = CONTRACT.replace("delete: [orders, customer]", "delete: no_such")
    with pytest.raises(ContractError):
        Gate(wrong, {"db": shop}, folder=keys / "r", key=keys / "gate.pem")
    with pytest.raises(UsageError, match="at most one"):
        Gate(wrong, {"a": shop, "b": shop}, folder=keys / "r", key=keys / "gate.pem")


# ---------------------------------------------------------------- approvals


def held(gate: Gate) -> Hold:
    outcome = gate.execute([ANOTHER])
    assert outcome.decision is Decision.HOLD
    assert outcome.record is not None
    return read_hold(gate.records.hold_path(outcome.record))


def approved(gate: Gate, hold: Hold, keys: Path, minutes: int = 5) -> Approval:
    at = utc_now()
    data = approve(hold, load_key(keys / "ada.pem"), at, at + timedelta(minutes=minutes))
    trust = load_trust(keys / "trust.json")
    return read_approval(data, trust, utc_now(), gate.records.contract_digest)


def test_an_approval_opens_exactly_what_was_held_and_once(opened, shop: Path, keys: Path) -> None:
    with opened() as gate:
        hold = held(gate)
        said = approved(gate, hold, keys)
        write(shop, "INSERT INTO customer VALUES (99, 'others go on')")
        first, again = gate.approve(hold, said), gate.approve(hold, said)
    assert (first.is_committed, again.is_committed) == (True, False)
    assert "used before" in again.why or "void" in again.why
    assert rows(shop, "SELECT count(*) FROM orders") == [(3,)]


def test_an_approval_opens_no_other_effect(opened, shop: Path, keys: Path) -> None:
    with opened() as gate:
        said = approved(gate, held(gate), keys)
        other = gate.execute([ANOTHER.replace("5", "6")], approval=said)
        denied = gate.execute(["DELETE FROM customer"], approval=said)
    assert [other.decision, denied.decision] == [Decision.HOLD, Decision.DENY]
    assert not other.is_committed
    assert "void" in other.why
    assert rows(shop, "SELECT count(*) FROM orders") == [(2,)]


def test_a_new_key_may_be_another_one_and_a_chosen_value_may_not(opened, shop, keys) -> None:
    with opened() as gate:
        hold = held(gate)
        said = approved(gate, hold, keys)
        write(shop, "INSERT INTO orders VALUES (50, 'theirs', 1, NULL)")
        outcome = gate.approve(hold, said)
    assert outcome.is_committed
    assert rows(shop, "SELECT id, cents FROM orders WHERE status = 'new'") == [(51, 5)]


def test_an_approval_counts_from_whom_until_when_and_for_which_contract(opened, keys) -> None:
    with opened() as gate:
        hold = held(gate)
        at = utc_now()
        trust, digest = load_trust(keys / "trust.json"), gate.records.contract_digest
        signed = approve(hold, load_key(keys / "ada.pem"), at, at + timedelta(minutes=1))
        own = approve(hold, load_key(keys / "gate.pem"), at, at + timedelta(minutes=1))
        changed = signed.replace(b'"hold":"', b'"hold":"x')
    for data, now, contract, why in (
        (signed, at + timedelta(minutes=1), digest, "expired"),
        (own, at, digest, "trusted as reviewer"),
        (changed, at, digest, "signature"),
        (signed, at, "0" * 64, "another contract"),
        (b"{}", at, digest, "cannot be read"),
    ):
        with pytest.raises(UsageError, match=why):
            read_approval(data, trust, now, contract)


# ---------------------------------------------------------------- records


def test_each_decision_is_a_signed_line_and_what_was_not_allowed_has_a_bundle(opened, keys) -> None:
    with opened() as gate:
        made: list[Outcome] = [gate.execute([s]) for s in (REFUND, ANOTHER, "DELETE FROM customer")]
    found = list(read_decisions(keys / "records"))
    assert [each["decision"] for each in found] == ["allow", "hold", "deny"]
    assert [each["is_committed"] for each in found] == [True, False, False]
    assert [each["name"] for each in found] == [each.record for each in made]
    folder = keys / "records" / "decisions"
    verdicts = [load(folder / str(each.record)).manifest["verdict"] for each in made[1:]]
    assert verdicts == ["MATCH", "DIVERGE"]  # the hold is right, and irreversible
    assert not (folder / str(made[0].record)).exists()


def test_a_gate_that_ends_in_its_commit_leaves_no_word_that_it_committed(
    opened, keys, monkeypatch, capsys
) -> None:
    def end(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("statediff_gate.sqlite.SqliteGate.commit", end)
    with opened() as gate, pytest.raises(KeyboardInterrupt):
        gate.execute([REFUND])
    [found] = read_decisions(keys / "records")
    assert (found["commits"], found["is_committed"]) == (True, False)
    assert run(["hold", "list", "--records", str(keys / "records")]) == 0
    assert "nobody saw" in capsys.readouterr().out
    with pytest.raises(UsageError, match="another key"):
        Records(keys / "records", keys / "ada.pem", contract_of(CONTRACT))


def test_a_record_that_was_changed_or_left_out_is_noticed(opened, keys: Path) -> None:
    with opened() as gate:
        for _ in range(3):
            gate.execute(["SELECT 1"])
    path = keys / "records" / "decisions.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[2])
    with pytest.raises(BundleError, match="does not follow"):
        list(read_decisions(keys / "records"))
    path.write_bytes(json.dumps({**json.loads(lines[0]), "decision": "deny"}).encode() + b"\n")
    with pytest.raises(BundleError):
        list(read_decisions(keys / "records"))
