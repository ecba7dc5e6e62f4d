"""The evidence of a batch as people meet it: verified, one rollout judged again, one opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from statediff import Evidence, Judge
from tests.cli.conftest import BEFORE, CONTRACT, Call

TRUST = ("--trust", "trust.json")


@pytest.fixture
def batch(statediff: Call, tmp_path: Path) -> Path:
    assert statediff("keygen", "key", "--name", "Ada").code == 0
    closed, lost = ({"id": 7, "status": "closed"}, {"id": 8, "status": "closed"})
    right = {**BEFORE, "ticket": [closed, BEFORE["ticket"][1]]}
    wrong = {**BEFORE, "ticket": [closed, lost]}
    evidence = Evidence(folder=tmp_path / "batch", key=tmp_path / "key")
    Judge(CONTRACT, BEFORE).score_many([right, wrong, 5], evidence=evidence)
    return tmp_path


@pytest.mark.usefixtures("batch")
def test_a_batch_is_verified_and_one_rollout_or_every_one_judged_again(statediff: Call) -> None:
    whole = statediff("verify", "batch", *TRUST)
    assert (whole.code, whole.out.splitlines()[0]) == (0, "VALID  batch")
    assert "rollouts: 3; DIVERGE 1, INCONCLUSIVE 1, MATCH 1" in whole.out
    assert "judged again: 0 of 3" in whole.out
    assert "not shown by this" in whole.out
    one = statediff("verify", "batch", *TRUST, "--rollout", "1", "--json")
    assert (one.code, one.json["status"]) == (0, "VALID")
    assert one.json["rollouts"] == [{"rollout": 1, "verdict": "DIVERGE"}]
    every = statediff("verify", "batch", *TRUST, "--every")
    assert (every.code, "rollout 2 was not read" in every.out) == (3, True)
    beyond = statediff("verify", "batch", *TRUST, "--rollout", "3")
    assert (beyond.code, "they begin with 0" in beyond.err) == (2, True)


@pytest.mark.usefixtures("batch")
def test_an_opened_rollout_is_shown_replayed_signed_and_verified(statediff: Call) -> None:
    made = statediff("batch", "open", "batch", "1", *TRUST, "--out", "one", "--json")
    assert (made.code, made.json["verdict"]) == (0, "DIVERGE")
    again = statediff("replay", "one", "--json")
    assert (again.code, again.json["digest"]) == (1, made.json["digest"])
    assert 'ticket 8 status "open" → "closed"' in statediff("show", "one").out
    assert statediff("sign", "one", "--key", "key", "--out", "one.zip").code == 0
    assert statediff("verify", "one.zip", *TRUST).out.startswith("VALID")
    unread = statediff("batch", "open", "batch", "2", *TRUST, "--out", "two")
    assert (unread.code, "rollout 2 was not read" in unread.err) == (4, True)


def test_a_rollout_whose_answer_is_withheld_is_genuine_and_not_replayable(
    statediff: Call, batch: Path
) -> None:
    body = CONTRACT + "answer:\n  schema: {token: text}\n"
    evidence = Evidence(folder=batch / "told", key=batch / "key")
    judge = Judge(body, BEFORE)
    judge.score_many([BEFORE], answers=[{"token": "7f3kQ9zX2Lw7"}], evidence=evidence)
    assert statediff("verify", "told", *TRUST, "--every").code == 0
    (batch / "told" / "undisclosed.json").unlink()
    found = statediff("verify", "told", *TRUST, "--every")
    assert (found.code, found.out.split()[0]) == (3, "NOT_REPLAYABLE")
    assert "withholds 1 value" in found.out
    opened = statediff("batch", "open", "told", "0", *TRUST, "--out", "none")
    assert (opened.code, "withholds 1 value" in opened.err) == (4, True)


def test_a_changed_batch_is_invalid_everywhere(statediff: Call, batch: Path) -> None:
    path = batch / "batch" / "rollouts"
    path.write_bytes(path.read_bytes()[:-1])
    found = statediff("verify", "batch", *TRUST, "--json")
    assert (found.code, found.json["status"]) == (4, "INVALID")
    assert statediff("verify", "batch", *TRUST).code == 4
    assert statediff("batch", "open", "batch", "0", *TRUST, "--out", "one").code == 4
    assert not (batch / "one").exists()


@pytest.mark.usefixtures("batch")
def test_what_is_for_one_bundle_is_refused_of_a_batch_and_the_other_way_round(
    statediff: Call,
) -> None:
    for options in (("--min-kernel", "8"), ("--log", "log"), ("--vault", "vault")):
        found = statediff("verify", "batch", *TRUST, *options)
        assert (found.code, "of a batch" in found.err) == (2, True)
    assert statediff("batch", "open", "batch", "0", *TRUST, "--out", "one").code == 0
    assert statediff("sign", "one", "--key", "key", "--out", "one.zip").code == 0
    assert statediff("verify", "one.zip", *TRUST, "--every").code == 2
    for command in ("show", "replay"):
        assert "batch open" in statediff(command, "batch").err
