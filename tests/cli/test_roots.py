"""State roots as people meet them: in a log before judging, and checked against what was kept."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from statediff.agents.isolation import isolation
from statediff.evidence.keys import generate
from tests.cli.conftest import JUDGE, Call, Files

SEAL = ("--key", "key", "--out", "sealed.zip")
SHUT = ("--observer", "shut")
VERIFY = ("verify", "sealed.zip", "--trust", "trust.json")


@pytest.fixture
def keyed(statediff: Call, files: Files) -> Path:
    assert statediff("keygen", "key", "--name", "Ada").code == 0
    return files.folder


@pytest.mark.usefixtures("keyed")
def test_verify_says_whether_roots_were_in_a_log_before_the_verdict(statediff: Call) -> None:
    assert statediff(*JUDGE, "--out", "kept", "--log", "log").code == 0
    assert statediff("log", "add", "log", "kept").code == 0
    assert [line["kind"] for line in statediff("log", "show", "log", "--json").lines] == [
        "roots", "verdict",
    ]  # fmt: skip
    assert statediff("sign", "kept", *SEAL).code == 0
    said = statediff(*VERIFY, "--log", "log")
    assert "in a log before judging: yes, entry 0, before its verdict, entry 1" in said.out
    assert "not shown by this" in said.out
    facts = statediff(*VERIFY, "--log", "log", "--json").json
    assert facts["logged"] == {"entry": 0, "verdict": 1}
    assert all(facts["judged_by"].values())
    assert "not asked" in statediff(*VERIFY).out


def test_roots_that_come_after_a_verdict_or_never_are_named(statediff: Call, keyed: Path) -> None:
    assert statediff(*JUDGE, "--out", "kept", "--log", "another").code == 0
    assert statediff("sign", "kept", *SEAL).code == 0
    assert statediff("log", "add", "log", "kept").code == 0
    assert "no, they are not in this log" in statediff(*VERIFY, "--log", "log").out
    line = (keyed / "another").read_bytes()
    with (keyed / "log").open("ab") as log:
        log.write(line)
    assert (
        "no, entry 1 comes after a verdict on this trial, entry 0"
        in statediff(*VERIFY, "--log", "log").out
    )


def test_no_line_of_a_log_is_a_digest_of_what_was_seen(statediff: Call, keyed: Path) -> None:
    assert statediff(*JUDGE, "--out", "one").code == 0
    for log in ("log", "other"):
        assert statediff("log", "add", log, "one").code == 0
    ours, theirs = (json.loads((keyed / log).read_bytes()) for log in ("log", "other"))
    for name in ("bundle", "contract_digest", "evidence"):
        assert ours[name] != theirs[name]
    assert (keyed / "log.secret").stat().st_mode & 0o777 == 0o600
    again = statediff("log", "add", "log", "one")
    assert (again.code, "has this bundle already" in again.err) == (2, True)


@pytest.mark.slow
def test_a_replay_checks_the_contract_and_the_chunks_of_the_run(
    statediff: Call, keyed: Path
) -> None:
    options = ("--agent", "careful", "--out", "runs", "--log", "log")
    assert statediff("run", "helpdesk/close-case", *options).code == 0
    [run] = (path.parent for path in (keyed / "runs").glob("*/run.json"))
    other = keyed / "other"
    shutil.copytree(run, other)
    (other / "secret").write_text("00" * 32)
    [trial] = (run / "trials").iterdir()
    assert (run / "secret").stat().st_mode & 0o777 == 0o600
    assert statediff("replay", str(trial), "--chunks", str(run)).code == 0
    apart = statediff("replay", str(trial), "--chunks", str(other))
    assert (apart.code, "not those of the chunks" in apart.err) == (4, True)
    contract = (trial / "bundle" / "contract.yaml").read_bytes()
    (keyed / "same.yaml").write_bytes(contract)
    (keyed / "more.yaml").write_bytes(contract + b"# and more\n")
    assert statediff("replay", str(trial), "--contract", "same.yaml").code == 0
    other_bytes = statediff("replay", str(trial), "--contract", "more.yaml")
    assert (other_bytes.code, "by other bytes" in other_bytes.err) == (4, True)
    kinds = [json.loads(line)["kind"] for line in (keyed / "log").read_bytes().splitlines()]
    assert kinds == ["registration", "roots"]


def test_each_door_has_what_it_captured_signed_by_an_observer(statediff: Call, keyed: Path) -> None:
    observed = ("--observer", "rita")
    assert statediff("keygen", "rita", "--name", "Rita", "--role", "observer").code == 0
    assert statediff(*JUDGE, "--out", "judged", *observed).code == 0
    watched = ("--contract", "c.yaml", "--state", "a.json", "--out", "watched", *observed)
    look = ("--isolate", "--json", "--", "test", "-s", "rita")  # the program does not find it
    seen = statediff("watch", *watched, *look)
    assert (seen.code, seen.json["program"]["exit_code"]) == (1, int("namespaces" in isolation()))
    options = ("--agent", "alters", "--out", "runs", *observed)
    assert statediff("run", "shop/add-and-backfill-column", *options).code == 0
    [trial] = (keyed / "runs").glob("*/trials/*")
    for number, kept in enumerate(("judged", "watched", str(trial))):
        out = f"{number}.zip"
        assert statediff("sign", kept, "--key", "key", "--out", out).code == 0
        said = statediff("verify", out, "--trust", "trust.json", "--observed", "--json")
        assert (said.code, said.json["observed"]["signer"]) == (0, "Rita")
        assert number < 2 or said.json["observed"]["agent"]["configuration"]
    retried = ("retry", str(trial.parent.parent), "--trial", trial.name)
    (keyed / "rita").rename(keyed / "ritas")
    lost = statediff(*retried)
    assert (lost.code, (trial / "bundle").is_dir()) == (2, True)
    assert statediff("keygen", "rita", "--name", "Eve", "--role", "observer").code == 0
    lost = statediff(*retried)
    assert (lost.code, "another observer's key" in lost.err) == (2, True)
    (keyed / "ritas").replace(keyed / "rita")
    assert statediff(*retried).code == 0
    generate(keyed / "shut", b"hunter2")
    shut = statediff("run", "shop/add-and-backfill-column", *options[:4], "-j", "2", *SHUT)
    assert (shut.code, "each process needs it" in shut.err) == (2, True)
    assert statediff(*JUDGE, "--log", "new", "--observer", "none").code == 2
    assert not (keyed / "new").exists()
    same = statediff("sign", "judged", "--key", "rita", "--out", "same.zip")
    assert (same.code, "this key observed the trial" in same.err) == (2, True)
    at_rest = ("--key", "key", "--vault", "vault", "--out", "x.kept")
    assert statediff("sign", "judged", *at_rest).code == 0
    again = ("verify", "x.kept", "--vault", "vault", "--trust", "trust.json", "--observed")
    assert statediff(*again).code == 0
    (keyed / "calls").write_text(
        '{"tool": "login", "arguments": {"password": "hunter2-hunter2"}}\n'
    )
    assert statediff(*JUDGE, "--trace", "calls", "--out", "unshown", *observed).code == 0
    said = statediff("sign", "unshown", "--key", "key", "--out", "unshown.zip")
    assert (said.code, "name who may" in said.err) == (0, True)
    assert statediff("verify", "unshown.zip", "--trust", "trust.json").code == 3
    assert statediff(*JUDGE, "--out", "bare").code == 0
    assert statediff("sign", "bare", "--key", "key", "--out", "bare.zip").code == 0
    unmet = statediff("verify", "bare.zip", "--trust", "trust.json", "--observed")
    assert (unmet.code, "nobody but its signer" in unmet.out) == (4, True)
