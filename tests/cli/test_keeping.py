"""`sign --vault`, `expire` and `raw` as people meet them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CONTRACT, Call, Files
from tests.test_said_is_judged import files_with

TRUST = ("--trust", "trust.json")
VAULT = ("--vault", "vault")


@pytest.fixture
def kept(statediff: Call, files: Files) -> Path:
    """A bundle at rest, `x.kept`, its keys in `vault`; a log with its verdict."""
    folder = Path(files.folder)
    files.write("c.yaml", CONTRACT + "evidence: {tables: {retain: 1ms}}\n")
    states = ("--before", "a.json", "--after", "b.json")
    made = statediff("judge", "c.yaml", *states, "--out", "kept")
    assert made.code in (0, 1), made.err
    assert statediff("keygen", "key", "--name", "Ada").code == 0
    assert statediff("log", "add", "log", "kept").code == 0
    assert statediff("sign", "kept", "--key", "key", *VAULT, "--out", "x.kept").code == 0
    assert (folder / "x.kept").stat().st_mode & 0o077 == 0  # what is not encrypted is an auditor's
    return folder


@pytest.mark.usefixtures("kept")
def test_a_kept_bundle_replays_until_it_is_erased_and_then_says_so(statediff: Call) -> None:
    assert statediff("verify", "x.kept", *TRUST, *VAULT, "--json").json["status"] == "VALID"
    verdict = statediff("replay", "x.kept", *TRUST, *VAULT, "--json").json["verdict"]
    unopened = statediff("verify", "x.kept", *TRUST, "--json")
    assert (unopened.code, unopened.json["status"]) == (3, "NOT_REPLAYABLE_AT_TIER")
    erase = ("--key", "key", *TRUST, *VAULT, "--log", "log", "--out", "erased.json")
    done = statediff("expire", "x.kept", *erase, "--json")
    assert done.code == 0, done.err
    assert (len(done.json["items"]), done.json["left"], done.json["entry"]) == (1, 1, 1)
    after = statediff("verify", "x.kept", *TRUST, *VAULT, "--json")
    assert (after.code, after.json["status"]) == (3, "NOT_REPLAYABLE_AT_TIER")
    assert after.json["verdict"] == verdict  # as signed; it is not decided again
    again = statediff("replay", "x.kept", *TRUST, *VAULT)
    assert again.code == 3
    assert again.out.startswith(f"{verdict} follows from")
    assert "withholds" in again.err
    shown = statediff("log", "show", "log", "--json").lines
    assert [entry["kind"] for entry in shown] == ["verdict", "retention"]
    assert shown[1]["about"] == done.json["root"]
    twice = statediff("expire", "x.kept", *erase[:-1], "more.json")
    assert (twice.code, "nothing is due" in twice.err) == (2, True)
    assert statediff("log", "add", "log", "erased.json", *TRUST).code == 2  # it is in already


def test_erasing_before_its_time_needs_a_reason_and_takes_all(statediff: Call, kept: Path) -> None:
    erase = ("--key", "key", *TRUST, *VAULT, "--out", "erased.json", "--everything")
    said = statediff("expire", "x.kept", *erase)
    assert (said.code, "--because" in said.err) == (2, True)
    assert statediff("expire", "x.kept", *erase, "--because", "asked for").code == 0
    assert list((kept / "vault").iterdir()) == []
    assert statediff("log", "add", "log", "erased.json", *TRUST).code == 0
    assert "asked for" in statediff("log", "show", "log").out


def test_an_erasure_takes_what_the_bundle_does_not_show_with_it(
    statediff: Call, kept: Path
) -> None:
    states = ("--before", "a.json", "--after", "b.json", "--trace", "calls.jsonl")
    for name, secret in (("one", "7f3kQ9zX2Lw7"), ("other", "Bd4sV1nM8Rt6")):
        calls = [{"tool": name, "arguments": {"password": secret}}]
        (kept / "calls.jsonl").write_text("".join(f"{json.dumps(call)}\n" for call in calls))
        done = statediff("judge", "c.yaml", *states, "--out", f"runs/trials/{name}/bundle")
        assert done.code in (0, 1), done.err
    (kept / "calls.jsonl").unlink()
    shutil.copytree(kept / "runs", kept / "copy")
    sealed = ("--key", "key", "--vault", "more", "--out", "one.kept")
    assert statediff("sign", "runs/trials/one/bundle", *sealed).code == 0
    erase = ("--key", "key", *TRUST, "--vault", "more", "--out", "gone.json", "--json")
    done = statediff("expire", "one.kept", *erase)
    beside = "trials/one/bundle.undisclosed.json"
    assert (done.code, done.json["removed"]) == (0, [f"copy/{beside}", f"runs/{beside}"]), done
    assert list(files_with("7f3kQ9zX2Lw7", kept)) == []
    assert len(files_with("Bd4sV1nM8Rt6", kept)) == 2
    assert statediff("replay", "runs/trials/other/bundle").code in (0, 1)
    missing = statediff("replay", "runs/trials/one/bundle")
    assert (missing.code, "withholds 1 value" in missing.err) == (4, True)
    # That of another trial in its place is refused.
    shutil.copy(kept / "runs" / beside.replace("one", "other"), kept / "runs" / beside)
    exchanged = statediff("replay", "runs/trials/one/bundle")
    assert exchanged.code == 4, exchanged


def test_what_an_erasure_does_not_reach_is_listed(statediff: Call, kept: Path) -> None:
    beside = kept.parent / "elsewhere"
    beside.mkdir()
    (beside / "note.txt").write_text("the ticket is closed now", encoding="utf-8")
    (beside / "other.txt").write_text("nothing of it", encoding="utf-8")
    erase = ("--key", "key", *TRUST, *VAULT, "--out", "erased.json", "--everything")
    erase = (*erase, "--because", "asked for", "--look", str(beside), "--json")
    done = statediff("expire", "x.kept", *erase)
    assert done.code == 0, done.err
    assert done.json["left"] == 0
    found = set(done.json["readable"])
    assert {"kept/fragments.json", "kept/judgement.json", "a.json", "b.json"} <= found
    assert str(beside / "note.txt") in found
    assert not {"x.kept", "erased.json", "key", str(beside / "other.txt")} & found


def test_a_key_that_does_not_count_erases_nothing(statediff: Call, kept: Path) -> None:
    assert statediff("keygen", "eve", "--name", "Eve", "--trust", "hers.json").code == 0
    before = sorted((kept / "vault").iterdir())
    erase = ("--key", "eve", *TRUST, *VAULT, "--out", "erased.json")
    said = statediff("expire", "x.kept", *erase)
    assert (said.code, "not trusted" in said.err) == (4, True)
    assert sorted((kept / "vault").iterdir()) == before
    assert not (kept / "erased.json").exists()


@pytest.mark.usefixtures("kept")
def test_what_does_not_go_together_is_told(statediff: Call) -> None:
    for arguments in (
        ("sign", "kept", "--key", "key", *VAULT, "--out", "y.zip"),
        ("sign", "kept", "--key", "key", "--out", "y.kept"),
        ("sign", "kept", "--key", "key", "--out", "y.zip", "--raw", "a.json"),
        ("sign", "kept", "--key", "key", "--out", "y.zip", "--raw-to", "age1x"),
        ("sign", "kept", "--key", "key", *VAULT, "--out", "x.kept"),
        ("verify", "kept", *TRUST, *VAULT),
        ("replay", "kept", *VAULT),
        ("expire", "nowhere.kept", "--key", "key", *TRUST, *VAULT, "--out", "e"),
    ):
        assert statediff(*arguments).code == 2, arguments
    gone = statediff("verify", "x.kept", *TRUST, "--vault", "elsewhere")
    assert (gone.code, "no vault" in gone.err) == (4, True)


@pytest.mark.parametrize(
    ("disclosed", "excluded", "code"),
    [
        ("disclose: auditor", "", 2),
        ("disclose: reviewer", "", 0),
        ("disclose: reviewer", "what: user.name, because: noise", 2),
    ],
)
def test_a_copy_that_is_promised_is_kept_or_nothing_is_signed(
    statediff: Call, files: Files, disclosed: str, excluded: str, code: int
) -> None:
    more = f"evidence: {{tables: {{{disclosed}}}}}\n"
    files.write("p.yaml", CONTRACT + more + (f"exclude: [{{{excluded}}}]\n" if excluded else ""))
    files.write("disclosure.yaml", "replayable: {MATCH: reviewer}\n")
    states = ("--before", "a.json", "--after", "b.json")
    assert statediff("judge", "p.yaml", *states, "--out", "kept").code == 0
    assert statediff("keygen", "key", "--name", "Ada").code == 0
    named = ("--disclosure", "disclosure.yaml", "--out", "y.zip")
    said = statediff("sign", "kept", "--key", "key", *named)
    assert (said.code, "promises" in said.err) == (code, code == 2)
    if code == 0:
        tier = ("--tier", "reviewer", "--out", "rev.zip")
        assert statediff("redact", "y.zip", *TRUST, *tier).code == 0
        assert statediff("replay", "rev.zip", *TRUST).code == 0


@pytest.mark.usefixtures("kept")
def test_raw_captures_go_to_the_auditor_with_the_identity(statediff: Call, files: Files) -> None:
    age: Any = pytest.importorskip("pyrage")
    ada = age.x25519.Identity.generate()
    files.write("identity", str(ada))
    raw = ("--raw", "a.json", "--raw", "b.json", "--raw-to", str(ada.to_public()))
    assert statediff("sign", "kept", "--key", "key", "--out", "y.zip", *raw).code == 0
    assert statediff("verify", "y.zip", *TRUST).code == 0
    assert statediff("replay", "y.zip", *TRUST).code == statediff("replay", "kept").code
    identity = ("--identity", "identity")
    assert statediff("raw", "y.zip", *TRUST, *identity, "--out", "r", "--json").json["names"] == [
        "a.json", "b.json",
    ]  # fmt: skip
    folder = Path(files.folder)
    assert (folder / "r" / "a.json").read_bytes() == (folder / "a.json").read_bytes()
    tier = ("--tier", "reviewer", "--out", "rev.zip")
    assert statediff("redact", "y.zip", *TRUST, *tier).code == 0
    none = statediff("raw", "rev.zip", *TRUST, *identity, "--out", "s")
    assert (none.code, "no raw captures" in none.err) == (2, True)
