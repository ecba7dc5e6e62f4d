"""`log` as people meet it: several at once, a full disk, a torn line, a log that was cut."""

from __future__ import annotations

import concurrent.futures
import contextlib
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.conftest import JUDGE, Call, Files, after


def judged(statediff: Call, files: Files, number: int) -> str:
    files.write("b.json", after(status="closed", other=f"o{number}"))
    assert statediff(*JUDGE, "--out", f"kept{number}").code == 1
    return f"kept{number}"


@pytest.fixture
def kept(statediff: Call, files: Files) -> Path:
    """A log of three verdicts, a key, and a checkpoint of all three."""
    for number in range(3):
        assert statediff("log", "add", "log", judged(statediff, files, number)).code == 0
    assert statediff("keygen", "key", "--name", "Ada").code == 0
    assert statediff("log", "checkpoint", "log", "--key", "key", "--out", "point").code == 0
    return files.folder


SEEN = ("--checkpoint", "point", "--trust", "trust.json")


def test_a_log_is_checked_and_proven(statediff: Call, kept: Path) -> None:
    assert statediff("log", "check", "log", *SEEN, "--json").json["more"] == 0
    assert statediff("log", "prove", "log", "1", *SEEN, "--out", "proof").code == 0
    (kept / "log").unlink()
    said = statediff("log", "verify", "proof", *SEEN)
    assert said.code == 0
    assert "DIVERGE" in said.out


def test_a_log_that_was_cut_or_changed_fails_its_check(statediff: Call, kept: Path) -> None:
    whole = (kept / "log").read_bytes()
    (kept / "log").write_bytes(b"".join(whole.splitlines(keepends=True)[:2]))
    said = statediff("log", "check", "log", *SEEN)
    assert (said.code, said.out) == (4, "")
    assert "taken out" in said.err
    (kept / "log").write_bytes(whole.replace(b"DIVERGE", b"MATCH"))
    assert "rewritten" in statediff("log", "check", "log", *SEEN).err


def test_the_next_entry_takes_the_place_of_a_torn_one(
    statediff: Call, kept: Path, files: Files
) -> None:
    with (kept / "log").open("ab") as log:
        log.write(b'{"at":"2026')
    assert statediff("log", "show", "log").code == 4
    assert statediff("log", "add", "log", judged(statediff, files, 9)).code == 0
    assert len(statediff("log", "show", "log", "--json").lines) == 4
    assert statediff("log", "check", "log", *SEEN, "--json").json["more"] == 1


@pytest.mark.slow
def test_several_at_once_lose_nothing(statediff: Call, files: Files) -> None:
    names = [judged(statediff, files, number) for number in range(6)]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        said = list(pool.map(lambda name: statediff("log", "add", "log", name, env={}), names))
    assert [each.code for each in said] == [0] * 6
    found = statediff("log", "show", "log", "--json").lines
    assert [entry["entry"] for entry in found] == list(range(6))
    assert len({entry["bundle"] for entry in found}) == 6


def test_a_full_disk_leaves_the_log_as_it_was_or_torn_never_wrong(
    statediff: Call, kept: Path, files: Files
) -> None:
    before = (kept / "log").read_bytes()
    name = judged(statediff, files, 9)
    said = statediff("log", "add", "log", name, limit_bytes=len(before) + 20)
    assert said.code == 4
    assert (kept / "log").read_bytes().startswith(before)
    assert statediff("log", "add", "log", name).code == 0
    assert statediff("log", "check", "log", *SEEN, "--json").json["more"] == 1


def test_what_is_wrong_is_told(statediff: Call, kept: Path, files: Files) -> None:
    again = statediff("log", "add", "log", "kept1")
    assert again.code == 2
    assert "entry 1" in again.err
    assert statediff("log", "check", "nowhere", *SEEN).code == 2
    assert statediff("log", "prove", "log", "7", *SEEN, "--out", "x").code == 2
    assert statediff("log", "verify", "log", *SEEN).code == 4
    assert statediff("log", "checkpoint", "log", "--key", "c.yaml", "--out", "x").code == 2
    files.write("contract2.yaml", (kept / "c.yaml").read_text().replace("1.0.0", "1.1.0"))
    files.write("b.json", after(status="closed", other="o1"))
    arguments = [word.replace("c.yaml", "contract2.yaml") for word in JUDGE]
    assert statediff(*arguments, "--out", "anew").code == 1
    silent = statediff("log", "add", "log", "anew")
    assert silent.code == 2
    assert "--because" in silent.err
    told = statediff("log", "add", "log", "anew", "--because", "a new version")
    assert told.code == 0
    assert "supersedes 1: a new version" in statediff("log", "show", "log").out


def test_reviews_and_releases_are_recorded_beside_verdicts(
    statediff: Call, kept: Path, files: Files
) -> None:
    for name in ("bo", "cy"):
        assert statediff("keygen", name, "--name", name, "--role", "reviewer").code == 0
    files.write("b.json", after(status="closed", other="closed"))
    assert statediff(*JUDGE, "--out", "t/bundle").code == 1
    assert statediff("lab", "adjudicate", "t", "--key", "bo", "--label", "correct").code == 0
    assert statediff("lab", "adjudicate", "t", "--key", "cy", "--label", "incorrect").code == 0
    settle = ("--label", "incorrect", "--because", "8 was not asked for", "--key", "bo")
    assert statediff("lab", "resolve", "t", *settle, "--trust", "trust.json").code == 0
    by = ("--by", "Ada", "--on", "2026-01-31")
    assert statediff("contract", "release", "c.yaml", *by).code == 0
    believed = ("released.yaml", "--trust", "trust.json")
    unsigned = statediff("log", "add", "log", *believed)
    assert (unsigned.code, "its release is not signed" in unsigned.err) == (4, True)
    assert statediff("contract", "release", "c.yaml", *by, "--key", "key").code == 0
    labels = [f"t/labels/{path.name}" for path in (kept / "t" / "labels").iterdir()]
    for name in labels:
        unsaid = statediff("log", "add", "log", name)
        assert (unsaid.code, "--trust" in unsaid.err) == (2, True)
        assert statediff("log", "add", "log", name, "--trust", "trust.json").code == 0
    assert statediff("log", "add", "log", *believed, "--json").json["kind"] == "release"
    assert "has all of it" in statediff("log", "add", "log", *believed).err
    signed = ("--by", "bo", "--on", "2026-02-01")
    assert statediff("contract", "sign-off", "c.yaml", *signed).code == 0
    assert "its sign-off is not signed" in statediff("log", "add", "log", *believed).err
    stranger = statediff("contract", "sign-off", "c.yaml", *signed, "--key", "cy")
    assert stranger.code == 0
    assert "is signed by cy" in statediff("log", "add", "log", *believed).err
    text = (kept / "released.yaml").read_text()
    (kept / "released.yaml").write_text(text.split("    reviewed:")[0])
    assert statediff("contract", "sign-off", "c.yaml", *signed, "--key", "bo").code == 0
    assert "bo" in statediff("log", "add", "log", *believed).out
    kinds = [entry["kind"] for entry in statediff("log", "show", "log", "--json").lines]
    assert sorted(kinds[3:6]) == ["adjudication", "adjudication", "resolution"]
    assert kinds[6:] == ["release", "release"]
    told = statediff("log", "show", "log").out
    assert "resolution" in told
    assert "8 was not asked for" in told
    assert "superseded" not in told
    assert statediff("log", "check", "log", *SEEN, "--json").json["more"] == 5


def test_what_was_signed_of_a_release_is_what_stands_there(statediff: Call, kept: Path) -> None:
    by = ("--by", "Ada", "--on", "2026-01-31", "--key", "key")
    assert statediff("contract", "release", "c.yaml", *by).code == 0
    text = (kept / "released.yaml").read_text()
    for old, new in (("2026-01-31", "2026-01-30"), ('by: "Ada"', 'by: "Eve"'), ("@1.", "@2.")):
        (kept / "released.yaml").write_text(text.replace(old, new, 1))
        said = statediff("log", "add", "log", "released.yaml", "--trust", "trust.json")
        assert (said.code, "another release" in said.err) == (4, True), said.err
    (kept / "released.yaml").write_text(text)
    assert statediff("contract", "release", "c.yaml", *by).code == 2


def test_two_checkpoints_are_compared_with_the_log_and_without_it(
    statediff: Call, kept: Path, files: Files
) -> None:
    assert statediff("log", "add", "log", judged(statediff, files, 9)).code == 0
    assert statediff("log", "checkpoint", "log", "--key", "key", "--out", "later").code == 0
    trust = ("--trust", "trust.json")
    assert statediff("log", "compare", "point", "later", *trust).code == 2
    said = statediff("log", "compare", "point", "later", *trust, "--log", "log", "--out", "shows")
    assert (said.code, "later: 1" in said.out) == (0, True)
    (kept / "log").rename(kept / "away")
    assert statediff("log", "compare", "point", "later", *trust, "--proof", "shows").code == 0
    back = statediff("log", "compare", "later", "point", *trust, "--proof", "shows")
    assert (back.code, "went back" in back.err) == (4, True)
    other = statediff("log", "compare", "point", "later", *trust, "--origin", "theirs")
    assert (other.code, "not of 'theirs'" in other.err) == (4, True)


def test_a_checkpoint_is_not_signed_over_one_that_saw_more(statediff: Call, kept: Path) -> None:
    lines = (kept / "log").read_bytes().splitlines(keepends=True)
    (kept / "log").write_bytes(b"".join(lines[:1]))
    said = statediff("log", "checkpoint", "log", "--key", "key", "--out", "point")
    assert (said.code, "taken out" in said.err) == (4, True)


def test_a_witness_signs_what_goes_on_and_a_reader_demands_it(statediff: Call, kept: Path) -> None:
    made = ("--name", "Wes", "--role", "witness")
    assert statediff("keygen", "wes", *made).code == 0
    demand = ("--witnesses", "1")
    assert statediff("log", "check", "log", *SEEN, *demand).code == 4
    with serving(kept) as url:
        sign = ("log", "checkpoint", "log", "--key", "key", "--out", "point", "--witness", url)
        assert statediff(*sign).code == 0
        said = statediff("log", "check", "log", *SEEN, *demand)
        assert (said.code, "Wes" in said.out) == (0, True)
        assert statediff("log", "prove", "log", "2", *SEEN, "--out", "proof").code == 0
        lines = (kept / "log").read_bytes().splitlines(keepends=True)
        (kept / "log").write_bytes(b"".join(lines[:2]))
        (kept / "point").unlink()
        refused = statediff(*sign)
        assert (refused.code, "another history" in refused.err) == (4, True)
    believed = statediff("log", "verify", "proof", "--trust", "trust.json", *demand)
    assert (believed.code, "Wes" in believed.out) == (0, True)
    more = statediff("log", "verify", "proof", "--trust", "trust.json", "--witnesses", "2")
    assert (more.code, "wanted: 2" in more.err) == (4, True)


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """`statediff log witness` in a process of its own, until the block ends."""
    options = ("--trust", "trust.json", "--key", "wes", "--name", "example.com/w", "--state", "w")
    command = [sys.executable, "-m", "statediff", "log", "witness", *options]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = re.search(r"http://\S+[0-9]", process.stderr.readline())
            assert found is not None
            yield found[0]
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130


def test_a_trial_that_is_left_out_of_the_log_shows(statediff: Call, kept: Path) -> None:
    making = ("run", "shop/correct-address", "--agent", "careful", "-k", "2", "--log", "log")
    run = statediff(*making)
    assert run.code == 0, run.err
    (folder,) = (kept / "runs").glob("run-*")
    none = statediff("log", "missing", "log", "--json")
    assert (none.code, none.json["trials"], none.json["missing"]) == (1, 2, 2)
    first, second = sorted((folder / "trials").iterdir())
    assert statediff("log", "add", "log", str(first)).code == 0
    one = statediff("log", "missing", "log", "--json")
    assert (one.code, one.json["names"]) == (1, [second.name])
    assert statediff("log", "add", "log", str(second / "bundle")).code == 0
    assert statediff("log", "missing", "log").code == 0
    assert statediff("log", "check", "log", *SEEN).code == 0
    shutil.rmtree(second)  # it was not liked, and is made again in the same run
    again = statediff(*making, "--resume")
    assert again.code == 0, again.err
    made = statediff("log", "missing", "log", "--json")
    assert (made.code, made.json["missing"], made.json["made_again"]) == (1, 0, [second.name])
    assert f"made more than once: {second.name}" in statediff("log", "missing", "log").out
    assert statediff("sign", str(second), "--key", "key", "--out", "again.zip").code == 0
    said = statediff("verify", "again.zip", "--trust", "trust.json", "--log", "log").out
    assert "made more than once: the log has state roots of this trial at" in said


def test_a_label_by_a_stranger_is_not_recorded(statediff: Call, kept: Path) -> None:
    options = ("--name", "Eve", "--role", "reviewer", "--trust", "hers.json")
    assert statediff("keygen", "eve", *options).code == 0
    assert statediff("lab", "adjudicate", "kept0", "--key", "eve", "--label", "correct").code == 0
    (label,) = (kept / "labels").iterdir()
    said = statediff("log", "add", "log", f"labels/{label.name}", "--trust", "trust.json")
    assert (said.code, "not trusted" in said.err) == (4, True)
    assert statediff("log", "check", "log", *SEEN, "--json").json["more"] == 0


def test_an_entry_before_what_is_there_is_refused(
    statediff: Call, kept: Path, files: Files
) -> None:
    """As with a clock that was set back: the log stays as it was."""
    lines = (kept / "log").read_bytes().splitlines(keepends=True)
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=0).isoformat()
    last = re.sub(rb'"at":"[^"]*"', f'"at":"{tomorrow}"'.encode(), lines[-1])
    (kept / "log").write_bytes(b"".join([*lines[:-1], last]))
    before = (kept / "log").read_bytes()
    said = statediff("log", "add", "log", judged(statediff, files, 4))
    assert said.code == 2
    assert f"its newest entry was made at {tomorrow}" in said.err
    assert (kept / "log").read_bytes() == before
    first = re.sub(rb'"at":"[^"]*"', f'"at":"{tomorrow}"'.encode(), lines[0])
    (kept / "log").write_bytes(b"".join([first, *lines[1:]]))
    said = statediff("log", "check", "log", *SEEN)
    assert (said.code, "it was dated back" in said.err) == (4, True)
