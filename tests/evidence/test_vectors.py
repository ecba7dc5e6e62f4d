"""Two verifiers that share no code agree on every public vector, and on mutants of them."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from statediff_lab.commands.conforming import read_vectors

from statediff.cli.main import run
from statediff.errors import BundleError
from statediff.evidence import verify as v
from statediff.evidence.checkpoints import check_extends, check_proof, read_checkpoint
from statediff.evidence.log import read_log
from tests.evidence.agreement import JavaScript
from tests.evidence.mutants import Mutant, Seed, changed

CHECKOUT = Path(__file__).parents[2]
VECTORS = {name: rest for name, *rest in read_vectors()}


def ours(files: Mapping[str, bytes], trust: bytes) -> str:
    try:
        return v.verify(files, v.read_trust(trust)).status
    except v.Rejected:
        return "INVALID"


def theirs(cases: list[tuple[Mapping[str, bytes], bytes]]) -> list[str]:
    known = tuple(Seed("", files, trust) for files, trust in cases)
    with JavaScript(known) as second:
        return second.ask([Mutant(at, {}) for at in range(len(known))])()


@pytest.mark.parametrize("name", VECTORS)
def test_a_vector_gets_its_status(name: str) -> None:
    files, trust, expected = VECTORS[name]
    assert ours(files, trust) == expected


def test_there_are_enough_vectors_and_most_must_be_refused() -> None:
    expected = [expect for _, _, expect in VECTORS.values()]
    assert len(expected) >= 100
    assert expected.count("INVALID") >= 0.7 * len(expected)
    assert set(expected) == {"VALID", "NOT_REPLAYABLE_AT_TIER", "INVALID"}


@pytest.mark.node
def test_the_second_verifier_agrees_on_every_vector() -> None:
    found = theirs([(files, trust) for files, trust, _ in VECTORS.values()])
    expected = [expect for _, _, expect in VECTORS.values()]
    assert dict(zip(VECTORS, found, strict=True)) == dict(zip(VECTORS, expected, strict=True))


def mutants_beside() -> dict[str, list[tuple[Mapping[str, bytes], bytes]]]:
    """Small changes of a proof and of a time stamp, by the file that was changed."""
    draw = random.Random(11)
    files, trust, _ = VECTORS["log-proof-and-stamp"]
    made = {name: [changed(files[name], draw, b"") for _ in range(400)] for name in v.MORE}
    return {
        name: [({**files, name: data}, trust) for data in every if data != files[name]]
        for name, every in made.items()
    }


def test_no_change_of_a_proof_goes_unseen() -> None:
    assert {ours(*mutant) for mutant in mutants_beside()[v.PROOF]} == {"INVALID"}


@pytest.mark.node
def test_both_verifiers_say_the_same_of_a_changed_proof_or_stamp() -> None:
    every = [mutant for found in mutants_beside().values() for mutant in found]
    expected = [ours(*mutant) for mutant in every]
    assert "VALID" in expected  # who signed a stamp is not for them to see
    assert theirs(every) == expected


def test_the_vectors_are_what_their_script_writes() -> None:
    import importlib.util  # noqa: PLC0415 - a script, not a package

    script = CHECKOUT / "fixtures" / "build_bundles.py"
    spec = importlib.util.spec_from_file_location("build_bundles", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kept = json.loads((CHECKOUT / "fixtures/bundles/vectors.json").read_text(encoding="utf-8"))
    logs = json.loads((CHECKOUT / "fixtures/bundles/logs.json").read_text(encoding="utf-8"))
    assert json.loads(json.dumps(module.logs())) == logs
    made = json.loads(json.dumps(module.document()))
    assert [x["name"] for x in made["vectors"]] == [x["name"] for x in kept["vectors"]]
    assert made == kept


LOGS = json.loads((CHECKOUT / "fixtures/bundles/logs.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("trust", "vector"),
    [(LOGS["trust"], vector) for vector in LOGS["vectors"]],
    ids=lambda each: each.get("name", ""),
)
def test_a_log_vector_is_accepted_or_refused(
    trust: Mapping[str, Any], vector: Mapping[str, Any]
) -> None:
    keys, signed = v.read_trust(json.dumps(trust).encode()), vector["checkpoint"].encode()
    data = vector["log"].encode()
    if vector["expect"] == "refused":
        with pytest.raises(BundleError):
            check_extends(read_log(data), read_checkpoint(signed, keys, "vectors"))
        return
    log = read_log(data)
    assert check_extends(log, read_checkpoint(signed, keys, "vectors")) == 0
    proofs = [check_proof(p.encode(), keys, signed=signed)[0] for p in vector["proofs"]]
    assert proofs == list(log.entries)


def test_a_verifier_that_believes_everything_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["conformance", "bundle", "--verifier", "true {sealed} {trust}", "--json"]) == 4
    found = json.loads(capsys.readouterr().out)
    assert len(found["failed"]) >= found["must_fail"] >= 0.7 * found["vectors"]


def test_our_own_verifier_passes_by_the_command_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["conformance", "bundle", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["failed"] == []


@pytest.mark.parametrize("command", ["true", "true {sealed}", "no-such-program {sealed} {trust}"])
def test_a_wrong_verifier_is_a_usage_error(command: str) -> None:
    assert run(["conformance", "bundle", "--verifier", command]) == 2
