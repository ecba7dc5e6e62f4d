"""What reviewers signed stands beside the figures of a store, and changes none of them."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from statediff.errors import BundleError, UsageError
from statediff.evidence.keys import SigningKey
from statediff.evidence.package import load
from statediff.evidence.verify import Signer
from statediff.reports.dashboard.page import board_page
from statediff.suite.indexing import index
from statediff.suite.labels import Flagged, Given, keep, read_signed, sign_flag, sign_label
from statediff.suite.opinions import Opinions, gather, opinions
from statediff.suite.records import Ended
from statediff.suite.review_terms import Label
from statediff.suite.store import Store, file_url, opened
from statediff.workspace.runfolders import run_facts
from statediff.workspace.stores import look
from tests.cli.conftest import Call
from tests.cli.conftest import statediff as statediff  # noqa: PLC0414 - a fixture
from tests.suite.folders import Folders

ADA, EVE = (
    SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(n, n + 32)))) for n in (0, 2)
)
TRUST = (Signer("Ada", ADA.public, ("reviewer",), None, None),)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
WHY = "two <b>readings</b> of the task"


def flag(run: Path, trial: str, key: SigningKey = ADA, at: datetime = NOON, **more: bool) -> Path:
    place = run / "trials" / trial
    return keep(place, sign_flag(load(place / "bundle").digest, WHY, at, key, **more))


def asked(store: Store, run: Path) -> Opinions:
    known = index(store, run, run_facts(run), look)
    gather(store, known.id, run)
    return opinions(store, [known.id], TRUST)


def test_opinions_are_known_apart_from_how_trials_ended(folders: Folders, tmp_path: Path) -> None:
    run = folders.run("r", {"notes/close": ["MATCH", "DIVERGE", "MATCH", "fault"]})
    given = Given(Label.INCORRECT, 5, blind=True)
    first = run / "trials" / "notes-close-1"
    keep(first, sign_label(load(first / "bundle").digest, given, NOON, ADA))
    flag(run, "notes-close-1")
    set_first = flag(run, "notes-close-2")
    with opened(file_url(tmp_path / "s.db")) as store:
        found = asked(store, run)
        assert [(e.trial, e.ended, e.label, len(e.flags)) for e in found.trials] == [
            ("notes-close-1", Ended.MATCH, Label.INCORRECT, 1),
            ("notes-close-2", Ended.DIVERGE, None, 1),
        ]
        (listed,) = store.listed()
        assert [listed.counts[e] for e in (Ended.MATCH, Ended.DIVERGE, Ended.FAULT)] == [2, 1, 1]
        # Withdrawn, and what is gone from the folder is gone.
        flag(run, "notes-close-1", at=NOON + timedelta(1), is_unreliable=False)
        set_first.unlink()
        assert [(e.trial, e.flags) for e in asked(store, run).trials] == [("notes-close-1", ())]
        assert "Not to be relied on" not in board_page(store, None, "x", trust=TRUST)


def test_only_a_trusted_reviewer_of_this_very_bundle_counts(
    folders: Folders, tmp_path: Path
) -> None:
    run = folders.run("r", {"notes/close": ["MATCH", "DIVERGE"]})
    flag(run, "notes-close-1", EVE)
    own = flag(run, "notes-close-2")
    there = run / "trials" / "notes-close-1" / "labels"
    (there / "moved.json").write_bytes(own.read_bytes())
    (there / "damaged.json").write_bytes(own.read_bytes()[:-9])
    (there / "huge.json").write_bytes(b"x" * 70_000)
    (there / "link.json").symlink_to(own)
    with opened(file_url(tmp_path / "s.db")) as store:
        found = asked(store, run)
    assert [each.trial for each in found.trials] == ["notes-close-2"]
    assert found.refused == 5


def test_a_flag_says_why_and_no_changed_byte_of_it_is_taken() -> None:
    with pytest.raises(UsageError, match="says why"):
        sign_flag("b", " ", NOON, ADA)
    data = sign_flag("b", WHY, NOON, ADA)
    assert read_signed(data, TRUST) == Flagged("b", "Ada", NOON, is_unreliable=True, because=WHY)
    for place in range(0, len(data), 7):
        with pytest.raises(BundleError):
            read_signed(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :], TRUST)


def test_flagged_cases_are_told_apart_by_every_command_and_still_counted(
    statediff: Call, folders: Folders, tmp_path: Path
) -> None:
    a = folders.run("a", {"notes/close": ["MATCH", "MATCH"]})
    b = folders.run("b", {"notes/close": ["DIVERGE", "MATCH"]})
    assert statediff("keygen", "ada.pem", "--name", "Ada", "--role", "reviewer").code == 0
    flagged = statediff("flag", str(b / "trials" / "notes-close-1"), "--because", WHY,
                        "--key", "ada.pem", "--json")  # fmt: skip
    assert (flagged.code, flagged.json["unreliable"]) == (0, True), flagged.err
    plain = statediff("stats", "runs/b", "--json").json
    told = statediff("stats", "runs/b", "--trust", "trust.json", "--json").json
    (case,) = told.pop("reviewed")["unreliable"]
    assert (case["trial"], case["flags"][0]["because"]) == ("notes-close-1", WHY)
    assert told == plain
    said = statediff("stats", "runs/b", "--trust", "trust.json").out
    assert f"unreliable: notes-close-1 (DIVERGE): {WHY} (Ada)" in said

    compared = statediff("compare", str(a), str(b), "--trust", "trust.json")
    assert compared.code == 1  # it is counted all the same
    assert "1 case flagged as unreliable, and counted; without: 1 both pass" in compared.out
    found = statediff("compare", str(a), str(b), "--trust", "trust.json", "--json").json
    assert [(c["change"], len(c["b"])) for c in found["unreliable"]] == [("regressed", 1)]

    made = statediff("open", "runs/b", "--trust", "trust.json", "--out", "page.html", "--no-open")
    page = (tmp_path / "page.html").read_text()
    assert (made.code, "Not to be relied on" in page) == (0, True)
    assert "two &lt;b&gt;readings" in page
    none = statediff("flag", str(b), "--contract", "shop/*", "--because", WHY, "--key", "ada.pem")
    assert (none.code, "no trial" in none.err) == (2, True)
    json.loads(statediff("agreement", "runs/b", "--trust", "trust.json", "--json").out)
