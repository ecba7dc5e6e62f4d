"""A run under a contract with `retain`: what it captured is encrypted, and goes with its key."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path

import pytest

from statediff.contract.file import load_contract
from statediff.errors import UsageError
from statediff.meta.reference import recorded_trials
from statediff.workspace.contracts import contract_path
from tests.cli.conftest import Call, Files

CONTRACT = "shop/exchange-or-refund"  # it keeps its shop for 90 days, its outbox for 30
VALUE = b"@example."
ERASE = ("--key", "key", "--trust", "trust.json", "--everything", "--because", "asked for")


@pytest.fixture
def ran(statediff: Call, files: Files) -> Path:
    """The folder of a run of two trials, its keys in `keys`."""
    options = ("--agent", "refunds", "-k", "2", "--out", "runs", "--vault", "keys")
    done = statediff("run", CONTRACT, *options)
    assert done.code == 0, done.err
    [run] = (path.parent for path in (files.folder / "runs").glob("*/run.json"))
    return run


def kept(statediff: Call, trial: Path) -> None:
    assert statediff("keygen", "key", "--name", "Ada").code == 0
    sealing = ("--key", "key", "--vault", "sealed-keys", "--out", "x.kept")
    assert statediff("sign", str(trial), *sealing).code == 0


def trials_of(run: Path) -> tuple[Path, Path]:
    first, second = sorted((run / "trials").iterdir())
    return first, second


def keys_of(trial: Path) -> set[str]:
    return {f"{path.stem.removeprefix('states-')}.key" for path in trial.glob("states-*.kept")}


@pytest.mark.slow
def test_chunks_go_with_their_keys_those_of_one_trial_and_no_other(
    statediff: Call, files: Files, ran: Path
) -> None:
    first, second = trials_of(ran)
    vault = files.folder / "keys"
    assert keys_of(first) | keys_of(second) == {path.name for path in vault.iterdir()}
    assert vault.stat().st_mode & 0o777 == 0o700
    chunks = [path for path in (ran / "chunks").glob("??/*") if path.is_file()]
    assert len(chunks) > 50
    assert {path.suffix for path in chunks} == {".sealed"}
    for path in (*chunks, first / "states.json", *first.glob("*.kept")):
        assert VALUE not in path.read_bytes(), path
    for trial in (first, second):
        assert statediff("replay", str(trial), "--chunks", str(ran)).code == 0
    assert "68 that are encrypted" in statediff("store", "check", str(ran / "chunks")).out
    contract = load_contract(contract_path(CONTRACT))
    assert len(recorded_trials(ran, contract)) == 2
    copy = files.folder / "copy"
    shutil.copytree(ran, copy)
    kept(statediff, first)
    done = statediff("expire", "x.kept", "--vault", "sealed-keys", *ERASE, "--out", "e", "--json")
    assert done.code == 0, done.err
    assert {entry["source"] for entry in done.json["chunks"]} == {"shop-db", "outbox"}
    assert all(entry["erased"] for entry in done.json["chunks"])
    assert {path.name for path in vault.iterdir()} == keys_of(second)
    record = json.loads(base64.b64decode(json.loads((files.folder / "e").read_bytes())["payload"]))
    assert {f"{name}.key" for name in record["items"]} > keys_of(first)
    assert (
        str(first.relative_to(files.folder) / "bundle" / "fragments.json")
        in (done.json["readable"])
    )
    assert not [path for path in done.json["readable"] if "chunks" in path]
    for run in (ran, copy):
        gone, there = (
            statediff("replay", str(run / "trials" / trial.name), "--chunks", str(run))
            for trial in (first, second)
        )
        assert (gone.code, "its key is not in" in gone.err, there.code) == (4, True, 0)
    with pytest.raises(UsageError, match="its key is not in"):
        recorded_trials(first, contract)


def test_no_decoy_makes_an_erasure_destroy_the_keys_of_another_trial(
    statediff: Call, files: Files, ran: Path
) -> None:
    first, second = trials_of(ran)
    theirs = keys_of(second)
    kept(statediff, first)
    for path in second.glob("states-*.kept"):
        shutil.copy(path, first)
    # Another trial's folder under the first one's name, in a run of its own.
    decoy = files.folder / "decoy"
    (decoy / "trials").mkdir(parents=True)
    shutil.copy(ran / "run.json", decoy)
    shutil.copytree(second, decoy / "trials" / first.name)
    erase = ("expire", "x.kept", "--vault", "sealed-keys", *ERASE, "--out", "e", "--json")
    done = statediff(*erase, "--look", "decoy")
    assert done.code == 0, done.err
    assert {path.name for path in (files.folder / "keys").iterdir()} == theirs
    assert any("of another trial" in each for each in done.json["untouched"])


@pytest.mark.slow
def test_a_resumed_run_keeps_its_vault_and_without_one_nothing_is_captured(
    statediff: Call, files: Files, ran: Path
) -> None:
    first, second = trials_of(ran)
    shutil.rmtree(second)
    before = keys_of(first)
    options = ("--agent", "refunds", "-k", "2", "--out", "runs", "--vault", "keys", "--resume")
    done = statediff("run", CONTRACT, *options)
    assert done.code == 0, done.err
    assert keys_of(first) == before
    assert keys_of(second) <= {path.name for path in (files.folder / "keys").iterdir()}
    assert statediff("replay", str(second), "--chunks", str(ran)).code == 0
    shutil.rmtree(files.folder / "keys")
    (files.folder / "keys").write_text("no folder")
    broken = statediff("run", CONTRACT, *options[:-1], "--json")
    assert "no key can be kept" in broken.out + broken.err


@pytest.mark.slow
def test_a_run_without_retain_names_no_vault_and_encrypts_nothing(
    statediff: Call, files: Files
) -> None:
    options = ("--agent", "careful", "--out", "runs")
    assert statediff("run", "helpdesk/close-case", *options).code == 0
    [run] = (path.parent for path in (files.folder / "runs").glob("*/run.json"))
    assert "vault" not in json.loads((run / "run.json").read_bytes())["settings"]
    assert not list(run.rglob("*.kept"))
    assert not list(run.rglob("*.sealed"))
    assert not (files.folder / ".statediff" / "vault").exists()
